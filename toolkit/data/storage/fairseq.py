"""Folders of fairseq-preprocess, monolingual or parallel, read as they are."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import sample_digest
from toolkit.data.storage.columns import ColumnPart, FolderSource
from toolkit.data.storage.fairseq_files import (
    CHUNK,
    FairseqIndex,
    find_languages,
    list_splits,
    read_index,
)
from toolkit.data.storage.meta import META_FILE
from toolkit.data.tokenizers.tokenizer import TOKENIZER_CONFIG_FILE, LanguagePair, Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.data.tokenizers.wrapped import ParallelTokenizer

COLUMN, TARGET_COLUMN = "tokens", "target"
INSPECTED_ITEMS = 1024  # if all of these end in </s>, all items do


def is_fairseq_folder(folder: Path) -> bool:
    """Whether it holds fairseq's files; a folder of the toolkit has, or has lost, its meta.json."""
    own = any((folder / name).exists() for name in (META_FILE, TOKENIZER_CONFIG_FILE))
    return not own and folder.is_dir() and any(folder.glob("*.idx"))


class FairseqFolder(FolderSource):
    """SPLIT.{bin,idx} and dict.txt, or SPLIT.SRC-TGT.LANG.{bin,idx} and dict.LANG.txt.

    train, train1, train2, ... are one split, as in fairseq. The files have no checksums: `digest`
    covers the dictionaries, the files' sizes and 64 chunks of 4 KiB of each, so it misses a change
    outside these.
    """

    checksums = False

    def __init__(self, path: Path, languages: LanguagePair | None = None) -> None:
        """`languages` selects one of several pairs, in the direction that it names."""
        self.path = path
        self._pair, self.languages = find_languages(path, languages)
        """Source and target, or the only one."""
        self.kind = "parallel" if len(self.languages) == 2 else "text"
        self._dictionaries = [self._read_dictionary(language) for language in self.languages]
        self.vocabulary_fingerprint = self._dictionaries[0].vocabulary.fingerprint
        self._stems: dict[str, list[str]] = {}
        for name in list_splits(path, self._pair):
            split = "train" if re.fullmatch(r"train\d+", name) else name
            self._stems.setdefault(split, []).append(name)
        self.splits = sorted(self._stems, key=lambda name: (name != "train", name != "valid", name))

    @cached_property
    def digest(self) -> str:
        digest = hashlib.sha256(" ".join(d.fingerprint for d in self._dictionaries).encode())
        for split in self.splits:
            for name in self._stems[split]:
                for stem in self._file_stems(name):
                    for suffix in (".idx", ".bin"):
                        digest.update(f"{stem.name}{suffix} ".encode())
                        sample = sample_digest(stem.with_name(stem.name + suffix))
                        digest.update(bytes.fromhex(sample))
        return digest.hexdigest()

    def parts(self, split: str) -> dict[str, list[ColumnPart]]:
        columns = (COLUMN, TARGET_COLUMN)[: len(self.languages)]
        parts: dict[str, list[ColumnPart]] = {column: [] for column in columns}
        for name in self._stems[split]:
            for column, part in zip(columns, self._open_parts(name, split), strict=True):
                parts[column].append(part)
        return parts

    def _open_parts(self, name: str, split: str) -> list[FairseqColumnPart]:
        stems, parts = self._file_stems(name), []
        for number, (stem, dictionary) in enumerate(zip(stems, self._dictionaries, strict=True)):
            words, others = dictionary.vocabulary, stems[:number] + stems[number + 1 :]
            part = FairseqColumnPart(stem, split, len(words), words.sep, *others)
            parts.append(part)
        counts = [part.index.items for part in parts]
        if len(set(counts)) > 1:
            raise ToolkitError(
                f"{parts[0].index.path} and {parts[1].index.path.name} must list equally many "
                f"sentences, but list {counts[0]} and {counts[1]}. Run fairseq-preprocess again."
            )
        return parts

    @property
    def facts(self) -> dict[str, str]:
        return {"written by": "fairseq-preprocess, without checksums"}

    def load_tokenizer(self) -> Tokenizer:
        if len(self.languages) == 1:
            return self._dictionaries[0]
        source, target = self._dictionaries
        joined = source.fingerprint == target.fingerprint
        return ParallelTokenizer(
            source,
            None if joined else target,
            source_lang=self.languages[0],
            target_lang=self.languages[1],
        )

    def _read_dictionary(self, language: str) -> WordLevelTokenizer:
        name = f"dict.{language}.txt" if language else "dict.txt"
        if not (self.path / name).exists():
            raise ToolkitError(
                f"{self.path} must hold fairseq's {name} next to its .idx files, but does not. "
                f"Copy it there."
            )
        return WordLevelTokenizer.from_file(self.path / name)

    def _file_stems(self, name: str) -> list[Path]:
        """The files of a split, one for each language, without their suffixes."""
        suffixes = [f".{self._pair}.{language}" if language else "" for language in self.languages]
        return [self.path / f"{name}{suffix}" for suffix in suffixes]


class _Items(NamedTuple):
    """Sentences without </s> and without those that are left out."""

    offsets: IntArray
    """First element of each, and at the end the number of elements."""
    raw_starts: IntArray
    """Start of each in the .bin file, in values."""
    numbers: IntArray
    """Number of each in the .idx file."""
    document_starts: IntArray
    end_in_eos: bool


class FairseqColumnPart(ColumnPart):
    """A .bin and .idx of fairseq, without the </s> that ends each line.

    Tasks add their own marks around sentences. A blank line, an item of nothing but </s>, ends a
    document. In folders written without </s> empty items do. `other` is the stem of the same
    sentences in the other language: pairs with an empty side are left out.
    """

    def __init__(
        self, stem: Path, split: str, symbols: int, sep: int, other: Path | None = None
    ) -> None:
        self.stem, self.split, self._symbols, self._sep = stem, split, symbols, sep
        self._other = other
        self.index: FairseqIndex = read_index(stem.with_name(stem.name + ".idx"))
        self.dtype = self.index.dtype
        self.files = (self.index.path.with_suffix(".bin"), self.index.path)

    def __reduce__(self) -> tuple[object, ...]:
        return FairseqColumnPart, (self.stem, self.split, self._symbols, self._sep, self._other)

    @cached_property
    def values(self) -> AnyArray:
        """Mapped, with </s>."""
        elements = self.index.elements
        if elements == 0:
            return np.zeros(0, self.dtype)
        return np.memmap(self.files[0], self.dtype, "r", shape=(elements,)).view(np.ndarray)

    @cached_property
    def _items(self) -> _Items:
        raw_starts, lengths, end_in_eos = self._read_lengths()
        full = lengths > 0
        if self._other is not None:
            other = FairseqColumnPart(self._other, self.split, self._symbols, self._sep)
            full &= other._read_lengths()[1] > 0
        numbers = np.flatnonzero(full)
        fresh = full & np.append(True, ~full[:-1])
        return _Items(
            np.append(0, np.cumsum(lengths[full])),
            raw_starts[full],
            numbers,
            np.flatnonzero(fresh[full]),
            end_in_eos,
        )

    def _read_lengths(self) -> tuple[IntArray, IntArray, bool]:
        """Start of each item in the .bin file, its length without </s>, and whether it has one."""
        sizes = self.index.sizes()
        raw_starts = np.cumsum(sizes) - sizes
        end_in_eos = self._has_eos(sizes, raw_starts)
        return raw_starts, sizes - end_in_eos, end_in_eos

    def _has_eos(self, sizes: IntArray, raw_starts: IntArray) -> bool:
        """Whether items end in </s>: all of those inspected must, or none."""
        filled = np.flatnonzero(sizes)
        count = min(INSPECTED_ITEMS, len(filled))
        some = filled[np.linspace(0, len(filled) - 1, count, dtype=np.int64)]
        marked = self.values[raw_starts[some] + sizes[some] - 1] == self._sep
        if marked.any() and not marked.all():
            self._fail(int(some[np.argmin(marked)]), "end in </s> like the others, but does not")
        return bool(marked.any())

    @property
    def items(self) -> int:
        return len(self._items.numbers)

    @property
    def elements(self) -> int:
        return int(self.offsets[-1])

    @property
    def documents(self) -> int:
        return len(self.document_starts)

    @property
    def offsets(self) -> IntArray:
        return self._items.offsets

    @property
    def document_starts(self) -> IntArray:
        return self._items.document_starts

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        items = self._items
        item = np.searchsorted(items.offsets, indices, side="right") - 1
        values = self.values.take(items.raw_starts[item] + indices - items.offsets[item])
        unknown = (values < 0) | (values >= self._symbols)
        if unknown.any():
            number = int(items.numbers[item[unknown][0]])
            self._fail(number, f"hold ids below {self._symbols}, but holds {values[unknown][0]}")
        return values

    def check_all(self) -> None:
        items = self._items
        for first in range(0, self.items, CHUNK // 64):
            starts = items.offsets[first : first + CHUNK // 64 + 1]
            self.take(np.arange(starts[0], starts[-1])[None], starts[:1], starts[-1:])
            ends = items.raw_starts[first : first + CHUNK // 64] + np.diff(starts)
            if items.end_in_eos and (wrong := self.values[ends] != self._sep).any():
                number = int(items.numbers[first + np.argmax(wrong)])
                self._fail(number, "end in </s>, but does not")

    def _fail(self, number: int, rule: str) -> None:
        raise ToolkitError(
            f"item {number} of {self.files[0]} (split {self.split!r}) must {rule}. The dictionary "
            f"may be another's, or the file is damaged: run fairseq-preprocess again."
        )

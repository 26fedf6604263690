"""Folders of fairseq-preprocess, monolingual or parallel, read as they are."""

from __future__ import annotations

import hashlib
import re
import struct
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.common.json_files import sample_digest
from toolkit.data.storage.column_files import ColumnPart, FolderSource
from toolkit.data.storage.meta import META_FILE
from toolkit.data.tokenizers.tokenizer import (
    TOKENIZER_CONFIG_FILE,
    LanguagePair,
    ParallelTokenizer,
    Tokenizer,
)
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

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
        self.facts = {"written by": "fairseq-preprocess, without checksums"}
        self._pair, self.languages = find_languages(path, languages)
        """Source and target, or the only one."""
        self.kind = "parallel" if len(self.languages) == 2 else "text"
        names = [f"dict.{language}.txt" if language else "dict.txt" for language in self.languages]
        self._dictionaries = [WordLevelTokenizer.from_file(path / name) for name in names]
        self.vocabulary_fingerprint = self._dictionaries[0].vocabulary.fingerprint
        self._stems: dict[str, list[str]] = {}
        matches = [it for it in match_names(path) if (it["pair"] or "") == self._pair]
        for name in sorted({match["split"] for match in matches}, key=by_number):
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
        columns = ("tokens", "target")[: len(self.languages)]
        parts: dict[str, list[ColumnPart]] = {column: [] for column in columns}
        for name in self._stems[split]:
            found, stems = list[FairseqColumnPart](), self._file_stems(name)
            for column, stem, dictionary in zip(columns, stems, self._dictionaries, strict=True):
                words, others = dictionary.vocabulary, [other for other in stems if other != stem]
                found.append(FairseqColumnPart(stem, split, len(words), words.sep, *others))
                parts[column].append(found[-1])
            counts = [part.listed for part in found]
            if len(set(counts)) > 1:
                raise ToolkitError(
                    f"{found[0].files[1]} and {found[1].files[1].name} must list equally many "
                    f"sentences, but list {counts[0]} and {counts[1]}. Preprocess them again."
                )
        return parts

    def load_tokenizer(self) -> Tokenizer:
        if len(self.languages) == 1:
            return self._dictionaries[0]
        source, target = self._dictionaries
        return ParallelTokenizer(
            source,
            None if source.fingerprint == target.fingerprint else target,
            source_lang=self.languages[0],
            target_lang=self.languages[1],
        )

    def _file_stems(self, name: str) -> list[Path]:
        """The files of a split, one for each language, without their suffixes."""
        suffixes = [f".{self._pair}.{language}" if language else "" for language in self.languages]
        return [self.path / f"{name}{suffix}" for suffix in suffixes]


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
        self.files = tuple(stem.with_name(stem.name + ending) for ending in (".bin", ".idx"))
        self.dtype, self.listed, self.listed_elements = read_header(*self.files)

    def __reduce__(self) -> tuple[object, ...]:
        return FairseqColumnPart, (self.stem, self.split, self._symbols, self._sep, self._other)

    @cached_property
    def values(self) -> AnyArray:
        """Mapped, with </s>."""
        shape = (self.listed_elements,)
        if not self.listed_elements:
            return np.zeros(0, self.dtype)
        return np.memmap(self.files[0], self.dtype, "r", shape=shape).view(np.ndarray)

    @cached_property
    def index(self) -> tuple[IntArray, IntArray]:
        """Of sentences without </s> that are not left out. Sets the start of each in the .bin file,
        its number in the .idx file, and whether it ends in </s>.
        """
        raw_starts, lengths, self._end_in_eos = self._read_lengths()
        full = lengths > 0
        if self._other is not None:
            other = FairseqColumnPart(self._other, self.split, self._symbols, self._sep)
            full &= other._read_lengths()[1] > 0
        self._raw_starts, self._numbers = raw_starts[full], np.flatnonzero(full)
        fresh = full & np.append(True, ~full[:-1])
        return np.append(0, np.cumsum(lengths[full])), np.flatnonzero(fresh[full])

    def _read_lengths(self) -> tuple[IntArray, IntArray, bool]:
        """Start of each item in the .bin file, its length without </s>, and whether it has one."""
        sizes = self.read_sizes()
        raw_starts = np.cumsum(sizes) - sizes
        filled = np.flatnonzero(sizes)
        count = min(INSPECTED_ITEMS, len(filled))
        some = filled[np.linspace(0, len(filled) - 1, count, dtype=np.int64)]
        marked = self.values[raw_starts[some] + sizes[some] - 1] == self._sep
        if marked.any() and not marked.all():
            self._fail(int(some[np.argmin(marked)]), "end in </s> like the others, but does not")
        end_in_eos = bool(marked.any())
        return raw_starts, sizes - end_in_eos, end_in_eos

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        item = np.searchsorted(self.offsets, indices, side="right") - 1
        values = self.values.take(self._raw_starts[item] + indices - self.offsets[item])
        unknown = (values < 0) | (values >= self._symbols)
        if unknown.any():
            number = int(self._numbers[item[unknown][0]])
            self._fail(number, f"hold ids below {self._symbols}, but holds {values[unknown][0]}")
        return values

    def check_all(self) -> None:
        for first in range(0, self.items, CHECKED_ITEMS):
            starts = self.offsets[first : first + CHECKED_ITEMS + 1]
            self.take(np.arange(starts[0], starts[-1])[None], starts[:1], starts[-1:])
            ends = self._raw_starts[first : first + CHECKED_ITEMS] + np.diff(starts)
            if self._end_in_eos and (wrong := self.values[ends] != self._sep).any():
                number = self._numbers[first + np.argmax(wrong)]
                self._fail(number, "end in </s>, but does not")

    def read_sizes(self) -> IntArray:
        """Values per listed item, not negative, of items that lie back to back."""
        index, size = self.files[1], self.dtype.itemsize
        lengths = np.memmap(index, "<i4", "r", HEADER.size, (self.listed,))
        offsets = np.memmap(index, "<i8", "r", HEADER.size + 4 * self.listed, (self.listed,))
        ends = np.cumsum(lengths, dtype=np.int64)
        wrong = (lengths < 0) | (offsets != (ends - lengths) * size)
        if wrong.any():
            item = int(wrong.argmax())
            raise ToolkitError(
                f"{index} must list items back to back, but item {item} has {lengths[item]} values "
                f"and starts at byte {offsets[item]}. {_REMEDY}"
            )
        if ends[-1] != self.listed_elements:
            raise ToolkitError(
                f"{index} must list the {self.listed_elements} values of its .bin file, but lists "
                f"{ends[-1]}. {_REMEDY}"
            )
        return lengths.astype(np.int64)

    def _fail(self, number: int, rule: str) -> None:
        raise ToolkitError(
            f"item {number} of {self.files[0]} (split {self.split!r}) must {rule}. The dictionary "
            f"may be another's, or the file is damaged: run fairseq-preprocess again."
        )


MAGIC = b"MMIDIDX\0\0"
HEADER = struct.Struct("<9sQBQ")  # magic, version, code of the values' type, items
DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}
ITEM_BYTES = 4 + 8  # int32 length in values, int64 offset in bytes
CHECKED_ITEMS = 1 << 16  # at once

_REMEDY = "Copy it again, or run fairseq-preprocess again with --dataset-impl mmap."


def read_header(values: Path, index: Path) -> tuple[np.dtype[Any], int, int]:
    """Type of the values and numbers of items and values; reads 26 bytes and both files' sizes."""
    open_regular(values).close()
    with open_regular(index) as file:
        head = file.read(HEADER.size).ljust(HEADER.size)
    size, value_bytes = index.stat().st_size, values.stat().st_size
    magic, version, code, items = HEADER.unpack(head)
    dtype = np.dtype(DTYPES.get(code, "V1"))
    expected = HEADER.size + ITEM_BYTES * items
    is_known = magic == MAGIC and version == 1 and code in DTYPES
    if not is_known or not items or size != expected or value_bytes % dtype.itemsize:
        raise ToolkitError(
            f"{index} must be fairseq's index of version 1, of integers (type "
            f"{', '.join(map(str, DTYPES))}) and of all its items, next to whole values in "
            f"{values.name}, but has version {version}, type {code}, {items} items in {size} bytes "
            f"and {value_bytes} bytes of values: it is truncated or another program's. {_REMEDY}"
        )
    return dtype, items, value_bytes // dtype.itemsize


NAME = re.compile(r"(?P<split>[^.]+)(?:\.(?P<pair>[^.]+)\.(?P<language>[^.]+))?")
"""`train.idx`, or `train.de-en.de.idx` for the German side of German to English."""


def find_languages(folder: Path, preferred: LanguagePair | None) -> tuple[str, tuple[str, ...]]:
    """The language pair as in the file names, and its source and target; or one language.

    A monolingual folder has none in its file names, or one in the pair LANG-None. The preferred
    pair is used if the folder has it, in this direction or the other; else the only one.
    """
    languages: dict[str, set[str]] = {}
    for match in match_names(folder):
        languages.setdefault(match["pair"] or "", set()).add(match["language"] or "")
    directions: dict[str, LanguagePair] = {
        "-".join(names): names
        for found in languages.values()
        for names in permutations(sorted(found), 2)
        if len(found) == 2 and languages.get("-".join(names)) is found
    }
    if preferred:
        for direction in (preferred, preferred[::-1]):
            if direction in directions.values():
                return "-".join(direction), preferred
    if len(languages) == 1:
        pair, own = next(iter(languages.items()))
        if len(own) == 1 and pair in ("", f"{min(own)}-None"):
            return pair, tuple(own)
        if pair in directions:
            return pair, directions[pair]
    if directions.keys() == languages.keys():
        raise ToolkitError(
            f"{folder} holds several language pairs: {', '.join(sorted(directions))}. Choose one "
            f"with --source-lang and --target-lang of toolkit-train."
        )
    names = ", ".join(f"{match[0]}.idx" for match in match_names(folder)[:6])
    raise ToolkitError(
        f"{folder} must hold text in one language, or both sides of language pairs, such as "
        f"train.de-en.de.idx and train.de-en.en.idx, but holds {names}. Separate the pairs."
    )


def match_names(folder: Path) -> list[re.Match[str]]:
    """The parts of the names of all index files; other names are an error."""
    matches = {path.name: NAME.fullmatch(path.stem) for path in sorted(folder.glob("*.idx"))}
    for name, match in matches.items():
        if match is None:
            raise ToolkitError(
                f"{folder / name} must be named like train.idx or train.de-en.de.idx, but is not. "
                f"Take it out of the folder."
            )
    return [match for match in matches.values() if match]


def by_number(name: str) -> tuple[str, int]:
    """Sort key that orders numbered names by number."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)

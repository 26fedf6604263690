"""A folder that fairseq-preprocess --only-source wrote, read as it is."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.data.storage.checksums import Places
from toolkit.data.storage.columns import ColumnPart
from toolkit.data.storage.fairseq_index import CHUNK, FairseqIndex, read_index
from toolkit.data.storage.meta import META_FILE
from toolkit.data.storage.source import FolderSource
from toolkit.data.tokenizers.tokenizer import TOKENIZER_CONFIG_FILE
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

LOOKED_AT = 1024  # items whose last symbol tells whether all of them end in </s>


class _Items(NamedTuple):
    """Where the sentences lie; numbered without blank lines and without </s>."""

    offsets: Places
    """Where each begins, in elements, and at the end where the last one ends."""
    raw_begins: Places
    """Where each begins in the .bin file, in values."""
    numbers: Places
    """Each one's number in the .idx file."""
    document_items: Places


class FairseqColumnPart(ColumnPart):
    """fairseq ends each line with </s>, and a blank line is an item of nothing but that.

    Tasks put in their own marks between sentences, so here </s> is left out, and a blank line ends
    a document. Folders written without </s> are read as they are; empty items then end documents.
    """

    def __init__(self, stem: Path, split: str, *, symbols: int, sep: int) -> None:
        self.stem, self.split, self._symbols, self._sep = stem, split, symbols, sep
        self.index: FairseqIndex = read_index(stem.with_name(stem.name + ".idx"))
        self.dtype = self.index.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.stem, self.split, self._symbols, self._sep)

    @property
    def files(self) -> tuple[Path, Path]:
        return self.index.path.with_suffix(".bin"), self.index.path

    @cached_property
    def values(self) -> npt.NDArray[Any]:
        """Mapped, with </s>."""
        elements = self.index.elements
        if elements == 0:
            return np.zeros(0, self.dtype)
        return np.memmap(self.files[0], self.dtype, "r", shape=(elements,)).view(np.ndarray)

    @cached_property
    def _items(self) -> _Items:
        sizes = self.index.sizes()
        raw_begins = np.cumsum(sizes) - sizes
        lengths = sizes - 1 if self._ends_are_marked(sizes, raw_begins) else sizes
        full = lengths > 0
        numbers = np.flatnonzero(full)
        fresh = full & np.append(True, ~full[:-1])
        return _Items(
            np.append(0, np.cumsum(lengths[full])),
            raw_begins[full],
            numbers,
            np.flatnonzero(fresh[full]),
        )

    def _ends_are_marked(self, sizes: Places, raw_begins: Places) -> bool:
        """Whether items end in </s>: all of those looked at must, or none."""
        filled = np.flatnonzero(sizes)
        some = filled[np.linspace(0, len(filled) - 1, min(LOOKED_AT, len(filled)), dtype=np.int64)]
        marked = self.values[raw_begins[some] + sizes[some] - 1] == self._sep
        if marked.any() and not marked.all():
            self._refuse(int(some[np.argmin(marked)]), "end in </s> like the others, but does not")
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
    def offsets(self) -> Places:
        return self._items.offsets

    @property
    def document_starts(self) -> Places:
        return self._items.document_items

    def take(self, places: Places, begins: Places, ends: Places) -> npt.NDArray[Any]:
        """Values at a grid of element numbers, compared with the vocabulary's size."""
        found = self._items
        item = np.searchsorted(found.offsets, places, side="right") - 1
        values = self.values.take(found.raw_begins[item] + places - found.offsets[item])
        strange = (values < 0) | (values >= self._symbols)
        if strange.any():
            number = int(found.numbers[item[strange][0]])
            self._refuse(number, f"hold ids below {self._symbols}, but holds {values[strange][0]}")
        return values

    def check_all(self) -> None:
        """Read everything: places, ids, and the symbol that ends each item."""
        found, marked = self._items, self.index.elements > self.elements
        for first in range(0, self.items, CHUNK // 64):
            begins = found.offsets[first : first + CHUNK // 64 + 1]
            self.take(np.arange(begins[0], begins[-1])[None], begins[:1], begins[-1:])
            ends = found.raw_begins[first : first + CHUNK // 64] + np.diff(begins)
            if marked and (wrong := self.values[ends] != self._sep).any():
                self._refuse(
                    int(found.numbers[first + np.argmax(wrong)]), "end in </s>, but does not"
                )

    def _refuse(self, number: int, rule: str) -> None:
        raise ToolkitError(
            f"item {number} of {self.files[0]} (split {self.split!r}) must {rule}. The dict.txt "
            f"beside it may be another's, or the file is damaged: run fairseq-preprocess again."
        )


def _opened(stem: Path, split: str, symbols: int, sep: int) -> FairseqColumnPart:
    return FairseqColumnPart(stem, split, symbols=symbols, sep=sep)


COLUMN, DICTIONARY = "tokens", "dict.txt"
SAMPLES, SAMPLE_BYTES = 64, 4096


def is_fairseq_folder(folder: Path) -> bool:
    """Whether it holds fairseq's files; one of our own has meta.json, or has lost it."""
    own = any((folder / name).exists() for name in (META_FILE, TOKENIZER_CONFIG_FILE))
    return not own and folder.is_dir() and any(folder.glob("*.idx"))


class FairseqFolder(FolderSource):
    """SPLIT.bin, SPLIT.idx and dict.txt. train, train1, train2, ... are one split, as in fairseq.

    The files have no checksums: `digest` is of the dictionary, of the files' sizes and of 64
    pieces of 4 KiB from each, so that a change that misses all of these is not noticed.
    """

    kind = "text"
    checksums = False

    def __init__(self, path: Path) -> None:
        self.path = path
        names = sorted(file.stem for file in path.glob("*.idx"))
        suffixed = [name for name in names if "." in name]
        if suffixed:
            raise ToolkitError(
                f"{path} must hold text in one language, such as train.idx, but holds "
                f"{suffixed[0]}.idx: parallel data cannot be read yet. Run fairseq-preprocess "
                f"with --only-source."
            )
        if not (path / DICTIONARY).exists():
            raise ToolkitError(
                f"{path} must hold fairseq's {DICTIONARY} beside its .idx files, but does not. "
                f"Copy it there."
            )
        self._stems: dict[str, list[str]] = {}
        for name in sorted(names, key=_by_number):
            split = "train" if re.fullmatch(r"train\d+", name) else name
            self._stems.setdefault(split, []).append(name)
        self.splits = sorted(self._stems, key=lambda name: (name != "train", name != "valid", name))
        self._dictionary = WordLevelTokenizer.from_file(path / DICTIONARY)
        self.vocabulary = self._dictionary.vocabulary.fingerprint

    @cached_property
    def digest(self) -> str:
        found = hashlib.sha256(self.vocabulary.encode())
        for split in self.splits:
            for name in self._stems[split]:
                for ending in ("idx", "bin"):
                    found.update(f"{name}.{ending} ".encode())
                    found.update(_sampled(self.path / f"{name}.{ending}"))
        return found.hexdigest()

    def parts(self, split: str) -> dict[str, list[ColumnPart]]:
        words = self._dictionary.vocabulary
        return {
            COLUMN: [
                FairseqColumnPart(self.path / name, split, symbols=len(words), sep=words.sep)
                for name in self._stems[split]
            ]
        }

    @property
    def facts(self) -> dict[str, str]:
        return {"written by": "fairseq-preprocess, without checksums"}

    def tokenizer(self) -> WordLevelTokenizer:
        return self._dictionary


def _by_number(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)


def _sampled(path: Path) -> bytes:
    """Digest of the size and of evenly spread pieces, the first and the last kind them."""
    size = path.stat().st_size
    found = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for place in np.linspace(0, max(0, size - SAMPLE_BYTES), SAMPLES, dtype=np.int64).tolist():
            file.seek(place)
            found.update(file.read(SAMPLE_BYTES))
    return found.digest()

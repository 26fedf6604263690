"""A .bin and .idx of fairseq as a part of a column: sentences without the symbol that ends them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.data.checksums import Places
from toolkit.data.columns import Part
from toolkit.data.fairseq_index import CHUNK, FairseqIndex, read_index

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


class FairseqPart(Part):
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
        return len(self.document_items)

    @property
    def offsets(self) -> Places:
        return self._items.offsets

    @property
    def document_items(self) -> Places:
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


def _opened(stem: Path, split: str, symbols: int, sep: int) -> FairseqPart:
    return FairseqPart(stem, split, symbols=symbols, sep=sep)

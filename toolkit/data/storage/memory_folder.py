"""Data folders stored nowhere: items that were just encoded, and a synthetic corpus.

The items are those of predictions on raw text. The corpus is for measurements that depend on the
shape of batches only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.data.storage.columns import Column, ColumnPart, FolderSource
from toolkit.data.storage.data_folder import DataFolder, Split
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary

SPLIT = "items"
"""Name of the only split."""
EncodedColumns = Mapping[str, tuple[AnyArray, IntArray]]
"""Column -> the values of all items back to back, and the number of values of each item."""


class MemoryFolder(DataFolder):
    """A data folder with one split, stored nowhere."""

    def __init__(self, kind: str, tokenizer: Tokenizer, columns: EncodedColumns) -> None:
        self.path, self.kind, self.sources = Path("raw items"), kind, list[FolderSource]()
        self.tokenizer = tokenizer
        parts = {name: MemoryPart(*encoded) for name, encoded in columns.items()}
        found = {name: Column(name, [part]) for name, part in parts.items()}
        self._splits = {SPLIT: Split(SPLIT, found)}

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def fingerprint(self) -> str:
        """Raw items are read once, so nothing compares them with others."""
        return self.name

    @property
    def splits(self) -> list[str]:
        return [SPLIT]


class MemoryPart(ColumnPart):
    """Items back to back in one array, as a single document."""

    def __init__(self, values: AnyArray, lengths: IntArray) -> None:
        self.values, self.dtype = values, values.dtype
        self._offsets: IntArray = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    @property
    def items(self) -> int:
        return len(self._offsets) - 1

    @property
    def elements(self) -> int:
        return len(self.values)

    @property
    def documents(self) -> int:
        return 1

    @property
    def offsets(self) -> IntArray:
        return self._offsets

    @property
    def document_starts(self) -> IntArray:
        return np.zeros(1, np.int64)

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        return self.values[indices]

    def check_all(self) -> None:
        """Nothing is stored that could be damaged."""


ITEM_TOKENS = 1 << 14
"""Tokens per item: more than any model reads at once, so that every sample is cut to its limit."""
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")


def synthetic_vocabulary(size: int) -> Vocabulary:
    """Special tokens, then numbers, each a word."""
    symbols = [*SPECIAL, *(f"\u2581{number}" for number in range(size - len(SPECIAL)))]
    return Vocabulary(symbols, pad=0, cls=1, sep=2, mask=3, unk=4)


class SyntheticFolder(DataFolder):
    """A data folder with one split, `train`: one document of long items, stored nowhere."""

    def __init__(self, vocabulary: Vocabulary, items: int) -> None:
        self._vocabulary = vocabulary
        self.path, self.kind, self.sources = Path("synthetic text"), "text", list[FolderSource]()
        column = Column("tokens", [ConstantLengthPart(vocabulary, items)])
        self._splits = {"train": Split("train", {"tokens": column})}

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def fingerprint(self) -> str:
        return self._vocabulary.fingerprint

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def splits(self) -> list[str]:
        return ["train"]


class ConstantLengthPart(ColumnPart):
    """Items of equal length; token n is the n-th ordinary symbol, counted cyclically."""

    dtype = np.dtype(np.int64)

    def __init__(self, vocabulary: Vocabulary, items: int) -> None:
        self._items = items
        special = (*vocabulary.special, vocabulary.unk)
        self._ids = np.setdiff1d(np.arange(len(vocabulary)), special)

    @property
    def items(self) -> int:
        return self._items

    @property
    def elements(self) -> int:
        return self._items * ITEM_TOKENS

    @property
    def documents(self) -> int:
        return 1

    @property
    def offsets(self) -> IntArray:
        return np.arange(self._items + 1, dtype=np.int64) * ITEM_TOKENS

    @property
    def document_starts(self) -> IntArray:
        return np.zeros(1, np.int64)

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        return self._ids[indices % len(self._ids)]

    def check_all(self) -> None:
        """Nothing is stored that could be damaged."""

"""Data folders stored nowhere: items that were just encoded, and a synthetic corpus.

The items are those of predictions on raw text. The corpus is for measurements that depend on the
shape of batches only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.data.storage.column_files import Column, ColumnPart, FolderSource
from toolkit.data.storage.data_folder import DataFolder, Split
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

SPLIT = "items"
"""Name of the only split."""
EncodedColumns = Mapping[str, tuple[AnyArray, IntArray]]
"""Column -> the values of all items back to back, and the number of values of each item."""


class MemoryFolder(DataFolder):
    """A data folder with one split, stored nowhere."""

    def __init__(self, kind: str, tokenizer: Tokenizer, columns: EncodedColumns) -> None:
        self.path, self.kind, self.sources = Path("raw items"), kind, list[FolderSource]()
        self.tokenizer, self.splits = tokenizer, [SPLIT]
        self.name = self.fingerprint = str(self.path)  # read once, so never compared with others
        parts = {name: MemoryPart(*encoded) for name, encoded in columns.items()}
        found = {name: Column(name, [part]) for name, part in parts.items()}
        self._splits = {SPLIT: Split(SPLIT, found)}


class MemoryPart(ColumnPart):
    """Items back to back in one array, as a single document."""

    def __init__(self, values: AnyArray, lengths: IntArray) -> None:
        self.values, self.dtype = values, values.dtype
        offsets: IntArray = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.index = offsets, np.zeros(1, np.int64)

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        return self.values[indices]


ITEM_TOKENS = 1 << 14
"""Tokens per item: more than any model reads at once, so that every sample is cut to its limit."""
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")


class SyntheticFolder(MemoryFolder):
    """A data folder with one split, `train`: one document of long items of numbers as words."""

    def __init__(self, symbols: int, items: int) -> None:
        words = [*SPECIAL, *(f"\u2581{number}" for number in range(symbols - len(SPECIAL)))]
        vocabulary = Vocabulary(words, pad=0, cls=1, sep=2, mask=3, unk=4)
        super().__init__("text", WordLevelTokenizer(vocabulary), {})
        self.name, self.fingerprint, self.splits = (
            "synthetic text",
            vocabulary.fingerprint,
            ["train"],
        )
        column = Column("tokens", [ConstantLengthPart(symbols, items)])
        self._splits = {"train": Split("train", {"tokens": column})}


class ConstantLengthPart(ColumnPart):
    """Items of equal length; token n is the n-th ordinary symbol, counted cyclically."""

    dtype = np.dtype(np.int64)

    def __init__(self, symbols: int, items: int) -> None:
        self._symbols = symbols - len(SPECIAL)
        offsets = np.arange(items + 1, dtype=np.int64) * ITEM_TOKENS
        self.index = offsets, np.zeros(1, np.int64)

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        return len(SPECIAL) + indices % self._symbols

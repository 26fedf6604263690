"""A data folder in memory: items that were just encoded, for predictions on raw text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.data.storage.columns import Column, ColumnPart
from toolkit.data.storage.data_folder import DataFolder, Split
from toolkit.data.storage.source import FolderSource
from toolkit.data.tokenizers.tokenizer import Tokenizer

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

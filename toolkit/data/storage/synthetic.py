"""Text that stands in for a corpus where only the shape of a batch matters; nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.data.storage.checksums import Places
from toolkit.data.storage.columns import Column, ColumnPart
from toolkit.data.storage.data_folder import DataFolder, Split
from toolkit.data.storage.source import FolderSource
from toolkit.data.tokenizers.vocabulary import Vocabulary

ITEM_TOKENS = 1 << 14
"""Of each item: more than a model reads at once, so that every sentence is cut to its limit."""
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")


def synthetic_vocabulary(size: int) -> Vocabulary:
    """Special symbols, then numbers, each a word."""
    symbols = [*SPECIAL, *(f"\u2581{number}" for number in range(size - len(SPECIAL)))]
    return Vocabulary(symbols, pad=0, cls=1, sep=2, mask=3, unk=4)


class SyntheticFolder(DataFolder):
    """A data folder with one split, `train`, of long items in one document."""

    def __init__(self, vocabulary: Vocabulary, items: int) -> None:
        self.words = vocabulary
        self.path, self.kind, self.sources = (
            Path("a stand-in for text"),
            "text",
            list[FolderSource](),
        )
        column = Column("tokens", [ConstantLengthPart(vocabulary, items)])
        self._opened = {"train": Split("train", {"tokens": column})}

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def fingerprint(self) -> str:
        return self.words.fingerprint

    @property
    def vocabulary(self) -> Vocabulary:
        return self.words

    @property
    def splits(self) -> list[str]:
        return ["train"]


class ConstantLengthPart(ColumnPart):
    """Items of equal length; token n is the n-th symbol of a text, counted round and round."""

    dtype = np.dtype(np.int64)

    def __init__(self, vocabulary: Vocabulary, items: int) -> None:
        self._items = items
        special = (*vocabulary.special, vocabulary.unk)
        self._words = np.setdiff1d(np.arange(len(vocabulary)), special)

    @property
    def files(self) -> tuple[Path, Path]:
        raise NotImplementedError("a stand-in has no files")

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
    def offsets(self) -> Places:
        return np.arange(self._items + 1, dtype=np.int64) * ITEM_TOKENS

    @property
    def document_starts(self) -> Places:
        return np.zeros(1, np.int64)

    def take(self, places: Places, begins: Places, ends: Places) -> npt.NDArray[Any]:
        return self._words[places % len(self._words)]

    def check_all(self) -> None:
        """There is nothing that could be damaged."""

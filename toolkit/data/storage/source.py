"""Base class of data folders: everything that is known before a token is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from toolkit.data.storage.columns import ColumnPart
from toolkit.data.tokenizers.tokenizer import Tokenizer


class FolderSource(ABC):
    """One data folder of some format; opening reads no token."""

    path: Path
    kind: str
    """What the items are, such as text."""
    vocabulary_fingerprint: str
    """Of the vocabulary that the column `tokens` was written with."""
    splits: list[str]
    checksums: bool
    """Whether the files carry checksums of their contents."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Changes when the data does."""

    @abstractmethod
    def parts(self, split: str) -> dict[str, list[ColumnPart]]:
        """The parts of each column, with equal item counts."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, str]:
        """The program that wrote the folder, and its options."""

    def counts(self, split: str) -> Mapping[str, int]:
        """Name -> count taken when a split was written, such as unknown tokens."""
        return {}

    @abstractmethod
    def load_tokenizer(self) -> Tokenizer:
        """The tokenizer that the folder was written with."""

"""What a data folder of any format tells of itself before a token is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from toolkit.data.storage.columns import ColumnPart
from toolkit.data.tokenizers.tokenizer import Tokenizer


class FolderSource(ABC):
    """One folder of some format; opening it has read no token."""

    path: Path
    kind: str
    """What the items are, such as text."""
    vocabulary: str
    """Fingerprint of the vocabulary that the tokens are ids of."""
    splits: list[str]
    checksums: bool
    """Whether the files can be compared with what they were when they were written."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Changes when the data does."""

    @abstractmethod
    def parts(self, split: str) -> dict[str, list[ColumnPart]]:
        """Column -> its parts, with equal item counts."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, str]:
        """What wrote the folder, and with which options."""

    def counts(self, split: str) -> Mapping[str, int]:
        """What was counted when a split was written, such as unknown tokens."""
        return {}

    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """Text to the ids of this folder and back."""

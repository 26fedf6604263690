"""What a data folder of any format tells of itself before a token is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from toolkit.data.codec import Codec
from toolkit.data.columns import Part


class Source(ABC):
    """One folder of some format; opening it has read no token."""

    path: Path
    kind: str
    """What the items are, such as text."""
    vocabulary: str
    """Fingerprint of the vocabulary that the tokens are ids of."""
    splits: list[str]

    @property
    @abstractmethod
    def digest(self) -> str:
        """Changes when the data does."""

    @abstractmethod
    def parts(self, split: str) -> dict[str, list[Part]]:
        """Column -> its parts, with equal item counts."""

    @abstractmethod
    def codec(self) -> Codec:
        """Text to the ids of this folder and back."""

"""A small command without sections, with every type of field, and the training command."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from toolkit.config.command import Command
from toolkit.config.commands.train import TRAIN
from toolkit.config.declared import MULTI_WORD, NO_SPLIT, Options


@dataclass(frozen=True, kw_only=True)
class Flat(Options, positional="files"):
    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Files to read,
    in order."""
    language: str = "en"
    """Language of the text."""
    title: str | None = None
    """Title, or none."""
    share: float = 0.5
    """Fraction to keep."""
    limit: int | None = None
    """Maximum number of lines."""
    shout: bool = False
    """Whether to shout."""
    parts: list[int] = field(default_factory=list)
    """Parts to use."""
    path: list[str] = field(default_factory=list, metadata=MULTI_WORD)
    """Paths to use."""


@pytest.fixture
def flat() -> Command:
    return Command(name="flat", summary="Do it.", example="flat x", config=Flat, common=("share",))


@pytest.fixture
def train() -> Command:
    return TRAIN

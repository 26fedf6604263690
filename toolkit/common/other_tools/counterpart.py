"""Options to write in place of one of another tool."""

from __future__ import annotations

from typing import NamedTuple


class Counterpart(NamedTuple):
    """Options to write instead; a command suggests the first one that it has."""

    options: tuple[str, ...]
    """Name of each, with a value if it replaces a switch: "precision tf32"."""
    note: str = ""
    """Sentence after that suggestion."""
    otherwise: str = ""
    """Sentence if the command has none of the options."""


def use(*options: str, note: str = "", otherwise: str = "") -> Counterpart:
    """The options to write in place of another tool's option."""
    return Counterpart(options, note, otherwise)


EACH_EPOCH = "Every epoch also ends with a validation and a checkpoint."
TORCHRUN = "Start the command with torchrun, which sets the number of processes."
CLASSES = "The classes are those of the data folder."
ABSENT = use(otherwise="There is no equivalent.")

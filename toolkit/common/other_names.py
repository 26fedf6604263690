"""Names in other tools, and what to write here: other_names.yaml, read when a message needs it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Counterpart(NamedTuple):
    """Options to write instead of one of another tool; a command suggests the first it has."""

    options: tuple[str, ...] = ()
    """Name of each, with a value if it replaces a switch: "precision tf32"."""
    note: str = ""
    """Sentence after that suggestion."""
    otherwise: str = ""
    """Sentence if the command has none of the options."""


@cache
def read_other_names() -> dict[str, dict[str, Any]]:
    """The contents of other_names.yaml: by tool, name -> its entry; components and terms too."""
    import yaml  # slow to import

    names: dict[str, dict[str, Any]] = yaml.safe_load(
        Path(__file__).with_name("other_names.yaml").read_text("utf-8")
    )
    return names


@cache
def counterparts() -> dict[str, Counterpart]:
    """Option of Hugging Face Transformers or fairseq -> what to write here, for messages."""
    entries = [
        item for tool in ("huggingface", "fairseq") for item in read_other_names()[tool].items()
    ]
    return {
        name: Counterpart(tuple(it.get("ours", ())), it.get("note", ""), it.get("otherwise", ""))
        for name, it in entries
        if "ours" in it or "otherwise" in it
    }

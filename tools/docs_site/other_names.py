"""Names of options in other toolkits, and the terms that people search for.

Names of fairseq and Hugging Face that differ from ours are in toolkit.common.other_tools, which
answers them on the command line. other_names.yaml has the others, and the terms:

    training.update_freq:                        # key of tools.docs_site.catalog
      terms: [gradient accumulation]
      fairseq: [update_freq]                     # names as written there, without dashes
      joeynmt: {batch_multiplier: Remark.}       # or with a remark each
    no_option:                                   # names that nothing here corresponds to
      huggingface: {push_to_hub: Remark.}
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from toolkit.common.other_tools import FAIRSEQ, TRANSFORMERS, Counterpart
from toolkit.config.declared import to_flag
from tools.docs_site.catalog import find_key

FILE = Path(__file__).with_name("other_names.yaml")
TOOLS = {"fairseq": "fairseq", "huggingface": "Hugging Face", "joeynmt": "JoeyNMT"}
ANSWERED: dict[str, dict[str, Counterpart]] = {"fairseq": FAIRSEQ, "huggingface": TRANSFORMERS}
NO_OPTION = "no_option"


class OtherName(NamedTuple):
    """An option of another toolkit."""

    name: str
    keys: tuple[str, ...]
    """Options here, the closest first; none if there is no counterpart."""
    value: str = ""
    """Value to give the first of them."""
    remark: str = ""

    def written(self, tool: str) -> str:
        """The name as users of that toolkit write it."""
        return to_flag(self.name) if tool == "fairseq" else self.name


@cache
def read_file() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def terms(key: str) -> list[str]:
    """What people who look for the option may call it."""
    return list(read_file().get(key, {}).get("terms", []))


@cache
def other_names(tool: str) -> list[OtherName]:
    """The options of another toolkit by name; entries of the file come first."""
    found = {other.name: other for other in answered_names(tool)}
    found |= {other.name: other for other in names_of_file(tool)}
    return sorted(found.values())


def names_of_file(tool: str) -> Iterator[OtherName]:
    for key, entry in read_file().items():
        given = entry.get(tool, [])
        remarks = given if isinstance(given, dict) else dict.fromkeys(given, "")
        for name, remark in remarks.items():
            yield OtherName(name, () if key == NO_OPTION else (key,), "", remark)


def answered_names(tool: str) -> Iterator[OtherName]:
    for name, counterpart in ANSWERED.get(tool, {}).items():
        options = [option.partition(" ") for option in counterpart.options]
        keys = tuple(find_key(option) for option, _, _ in options)
        remark = counterpart.note if keys else counterpart.otherwise
        yield OtherName(name, keys, options[0][2] if options else "", remark)


def names_of_option(key: str) -> dict[str, list[str]]:
    """Toolkit -> the names that an option has there."""
    found = {
        title: [other.written(tool) for other in other_names(tool) if key in other.keys]
        for tool, title in TOOLS.items()
    }
    return {title: names for title, names in found.items() if names}

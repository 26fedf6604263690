"""Names of options in other toolkits, and the terms that people search for.

They are those of toolkit/common/other_names.yaml, from which the command line answers too.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from toolkit.common.registry import read_other_names
from toolkit.config.declared import to_flag
from tools.docs_site.catalog import find_key

TOOLS = {"fairseq": "fairseq", "huggingface": "Hugging Face", "joeynmt": "JoeyNMT"}


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


def terms(key: str) -> list[str]:
    """What people who look for the option may call it."""
    return list(read_other_names()["terms"].get(key, []))


@cache
def other_names(tool: str) -> list[OtherName]:
    """The options of another toolkit by name."""
    found = []
    for name, entry in read_other_names()[tool].items():
        options = [] if "key" in entry else [o.partition(" ") for o in entry.get("ours", [])]
        keys = tuple(find_key(option) for option, _, _ in options)
        remark = entry.get("note" if keys else "otherwise", "")
        if "key" in entry:
            keys, remark = tuple(filter(None, [entry["key"]])), entry.get("remark", "")
        found.append(OtherName(name, keys, options[0][2] if options else "", remark))
    return sorted(found)


def names_of_option(key: str) -> dict[str, list[str]]:
    """Toolkit -> the names that an option has there."""
    found = {
        title: [other.written(tool) for other in other_names(tool) if key in other.keys]
        for tool, title in TOOLS.items()
    }
    return {title: names for title, names in found.items() if names}

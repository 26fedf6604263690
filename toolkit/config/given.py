"""Values as a user gave them, each with the place it came from; nothing in them is interpreted."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.config.command import Command
from toolkit.config.options import Option


class Given(NamedTuple):
    value: Any
    origin: str


Values = dict[str, Given]
"""Full path of an option -> the value that wins so far."""


def plain(path: str, value: Any) -> None:
    """Refuse what a configuration library might expand: no environment, no references."""
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, str) and ("${" in item or item == "???"):
            raise ToolkitError(
                f"{path} must be a plain value, but is {item!r}. Write the value itself: "
                "nothing is interpolated."
            )
        if isinstance(item, Mapping | list | tuple):
            raise ToolkitError(
                f"{path} must hold no sections or lists of its own, but holds "
                f"{reprlib.repr(item)}. Write a plain value."
            )


def read(option: Option, value: Any) -> Any:
    """Text by the field's type: lists are parted, none is None where text is not what is wanted."""
    plain(option.path, value)
    if option.many:
        return parted(option, value) if isinstance(value, str) else value
    if option.optional and option.scalar is not str and value in ("none", "null", ""):
        return None
    return value


def parted(option: Option, text: str) -> list[str]:
    """The items of a list that was given as one text."""
    if not text:
        return []
    return text.split(option.separator) if option.separator else [text]


def flattened(nested: Mapping[str, Any], command: Command, origin: str) -> Values:
    """{arch: {name: taco, layers: 2}} -> arch.name, arch.layers; `arch: taco` names it alone.

    A section in which nothing is written sets nothing.
    """
    sections = {*command.components, *command.plain_sections()} - {""}
    found: Values = {}
    for section, value in nested.items():
        if isinstance(value, Mapping):
            found |= {f"{section}.{key}": Given(item, origin) for key, item in value.items()}
        elif value is not None or section not in sections:
            path = f"{section}.name" if section in command.components else str(section)
            found[path] = Given(value, origin)
    for path, given in found.items():
        plain(path, given.value)
    return found

"""Values of options: text becomes a value of the field's type; nothing in it is interpolated."""

from __future__ import annotations

import copy
import dataclasses
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import check_value
from toolkit.config.options import Option

TRUE_WORDS = ("true", "yes", "on", "y", "1")
FALSE_WORDS = ("false", "no", "off", "n", "0")
NONE_WORDS = ("none", "null", "")


class OptionValue(NamedTuple):
    """A value as the user gave it, and the flag, file or call that it came from."""

    value: Any
    origin: str


OptionValues = dict[str, OptionValue]
"""Full path of an option -> the value that wins so far."""


@dataclasses.dataclass(frozen=True)
class Overrides:
    """Options of a section of a checkpoint's run, each with its values as text."""

    values: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)


def build_config(
    defaults: Any, options: Sequence[Option], values: OptionValues, **components: object
) -> Any:
    """The config class or instance `defaults` with these values of its options."""
    fields: dict[str, object] = {**components}
    for option in options:
        if option.path in values:
            fields[option.name] = value = parse_value(option, *values[option.path])
            check_value(option.path, option.type, value)
        elif option.default is dataclasses.MISSING:
            raise ToolkitError(f"{option.flag} is required.")
    if isinstance(defaults, type):
        return defaults(**fields)
    return dataclasses.replace(copy.deepcopy(defaults), **fields)


def parse_value(option: Option, value: object, origin: str = "") -> object:
    """The value in the option's type; a list may be given as one text."""
    check_plain(option.path, value)
    nones = (None,) if option.type.scalar is str else (None, *NONE_WORDS)
    if option.type.optional and value in nones:
        return None
    try:
        if not option.type.is_list:
            return convert(value, option.type.scalar)
        items = split_list(option, value) if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise ValueError(items)
        return [convert(item, option.type.scalar) for item in items]
    except (ValueError, OverflowError):
        raise ToolkitError(
            f"{option.path} must be {option.rule}, but is {reprlib.repr(value)} ({origin})."
        ) from None


def split_values(option: Option, value: object, origin: str) -> list[str]:
    """The values of an overridden option, given as a list or separated by commas."""
    values = parse_value(option, value, origin)
    if not isinstance(values, list) or not values:
        raise ToolkitError(f"{option.path} must have a value, but is empty ({origin}).")
    return values


def convert(value: object, scalar: type) -> object:
    """The value as a bool, int, float or str; a ValueError if it is none."""
    if scalar is str and isinstance(value, str | int | float | Path):
        return str(value)
    if scalar is bool:
        word = str(value).lower()
        if word in TRUE_WORDS or word in FALSE_WORDS:
            return word in TRUE_WORDS
    elif isinstance(value, str | int) and not isinstance(value, bool):
        return scalar(value)
    elif isinstance(value, float) and scalar is float:
        return value
    raise ValueError(value)


def check_plain(path: str, value: object) -> None:
    """Reject what a configuration library might expand: environment variables, references."""
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, str) and ("${" in item or item == "???"):
            raise ToolkitError(
                f"{path} must be a plain value, but is {item!r}. Write the value itself: "
                "nothing is interpolated."
            )
        if isinstance(item, Mapping | list | tuple):
            raise ToolkitError(
                f"{path} must hold no sections or nested lists, but holds "
                f"{reprlib.repr(item)}. Write a plain value."
            )


def split_list(option: Option, text: str) -> list[str]:
    """The items of a list that was given as one text."""
    if not text:
        return []
    return text.split(option.separator) if option.separator else [text]

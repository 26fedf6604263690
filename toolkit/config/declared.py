"""Choices and ranges of options, declared in the types of config fields:

@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Options, section="training"):
    seed: NonNegativeInt = 1
    ema_decay: Annotated[float, AtLeast(0), Below(1)] = 0.0
    device: Literal["auto", "cpu", "cuda"] = "auto"
"""

from __future__ import annotations

import inspect
import math
import operator
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from toolkit.common.errors import ToolkitError


@dataclass(frozen=True)
class Bound:
    """A limit of a number; `str(bound)` completes the sentence "X must be ..."."""

    limit: int | float
    or_zero: bool = False
    """Whether 0 is allowed as well."""
    words: ClassVar[str]
    holds: ClassVar[Callable[[Any, Any], bool]]

    def allows(self, value: int | float) -> bool:
        return type(self).holds(value, self.limit) or (self.or_zero and value == 0)

    def __str__(self) -> str:
        words = "finite" if math.isinf(self.limit) else f"{self.words} {self.limit:g}"
        return f"{'0 or ' * self.or_zero}{words}"


class AtLeast(Bound):
    """A lower limit that is allowed itself."""

    words, holds = "at least", operator.ge


class AtMost(Bound):
    """An upper limit that is allowed itself."""

    words, holds = "at most", operator.le


class Above(Bound):
    """A lower limit that is not allowed itself."""

    words, holds = "above", operator.gt


class Below(Bound):
    """An upper limit that is not allowed itself."""

    words, holds = "below", operator.lt


NonNegativeInt = Annotated[int, AtLeast(0)]
PositiveInt = Annotated[int, AtLeast(1)]
NonNegativeFloat = Annotated[float, AtLeast(0)]
PositiveFloat = Annotated[float, Above(0)]
Fraction = Annotated[float, AtLeast(0), AtMost(1)]
Rate = Annotated[float, AtLeast(0), Below(1)]
"""Such as a dropout rate: 1 would leave nothing."""


class OptionType(NamedTuple):
    """Type, choices and range of a config field, as its annotation declares them."""

    scalar: Any
    """Type of the value, or of a list's items."""
    optional: bool = False
    is_list: bool = False
    choices: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()

    @property
    def rule(self) -> str:
        """Rule for values in addition to their type: "one of a, b", "at least 0 and below 1"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return " and ".join(map(str, self.bounds))

    def allows(self, value: Any) -> bool:
        return (not self.choices or value in self.choices) and all(
            bound.allows(value) for bound in self.bounds
        )


def parse_annotation(annotation: object) -> OptionType:
    """The declaration `T`, `T | None`, `list[T]`, `Literal[...]` or `Annotated[T, bound, ...]`."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        inner = parse_annotation(parts[0])
        bounds = tuple(part for part in parts[1:] if isinstance(part, Bound))
        return inner._replace(bounds=inner.bounds + bounds)
    if origin in (typing.Union, types.UnionType):
        present = [part for part in parts if part is not type(None)]
        inner = parse_annotation(present[0] if len(present) == 1 else None)
        return inner._replace(optional=len(present) < len(parts))
    if origin is list:
        return parse_annotation(parts[0])._replace(is_list=True)
    if origin is Literal:
        return OptionType(str, choices=parts)
    return OptionType(annotation)


@cache
def read_declarations(config: type) -> dict[str, OptionType]:
    """Field -> its declaration; fields that hold another config are no options."""
    hints: dict[str, Any] = {}
    for ancestor in reversed(config.__mro__):
        hints |= inspect.get_annotations(ancestor, eval_str=True)
    return {
        field.name: parse_annotation(hints[field.name])
        for field in fields(config)
        if not is_dataclass(hints[field.name])
    }


def check_value(path: str, declared: OptionType, value: Any) -> None:
    """Raise a ToolkitError if the value is outside the choices or range of an option."""
    if value is None and declared.optional:
        return
    for item in value if declared.is_list else [value]:
        if not declared.allows(item):
            each = "each item of " * declared.is_list
            raise ToolkitError(f"{each}{path} must be {declared.rule}, but is {item!r}.")


class Options:
    """Base class of configs: checks required fields, declared choices and ranges of an instance.

    A subclass with rules across fields checks them in `__post_init__`, after the one of its base.
    """

    __no_type_check__ = True  # run-time type checkers leave these classes to the check below

    section: ClassVar[str] = ""
    """Section of the options, for messages: "training" in "training.seed must be ..."."""

    help_title: ClassVar[str] = ""
    """Title in `--help` of the options that this class itself declares."""

    required_fields: ClassVar[dict[str, str]] = {}
    """Field that must not be empty -> the message if it is."""

    def __init_subclass__(
        cls,
        section: str | None = None,
        title: str = "",
        required: Mapping[str, str] | None = None,
    ) -> None:
        super().__init_subclass__()
        cls.help_title = title
        inherited = ChainMap(*(getattr(base, "required_fields", {}) for base in cls.__bases__))
        cls.required_fields = {**inherited, **(required or {})}
        if section is not None:
            cls.section = section

    def __post_init__(self) -> None:
        for name, message in self.required_fields.items():
            if not getattr(self, name):
                raise ToolkitError(message)
        prefix = f"{self.section}." if self.section else ""
        config: type = type(self)
        for name, declared in read_declarations(config).items():
            check_value(prefix + name, declared, getattr(self, name))

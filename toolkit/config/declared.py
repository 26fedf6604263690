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

MAX_COUNT, MAX_INT = 2**31 - 1, 2**63 - 1
"""Upper limits of integers with a bound, which are counts, and of others, such as seeds."""


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
        limit = f"{self.limit:g}" if isinstance(self.limit, float) else str(self.limit)
        return f"{'0 or ' * self.or_zero}{self.words} {limit}"


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


class Limit(AtMost):
    """An upper limit far above sensible values: only the error for a higher value names it."""


NonNegativeInt = Annotated[int, AtLeast(0)]
PositiveInt = Annotated[int, AtLeast(1)]
Size = Annotated[int, AtLeast(1), Limit(2**20)]
"""Such as a width or a beam size: memory or time grows with it."""
Tokens = Annotated[int, AtLeast(1), Limit(2**24)]
Layers = Annotated[int, AtLeast(1), Limit(1000)]
Processes = Annotated[int, AtLeast(0), Limit(1024)]
NonNegativeFloat = Annotated[float, AtLeast(0)]
PositiveFloat = Annotated[float, Above(0)]
Seconds = Annotated[float, Above(0), Limit(10**9)]
Fraction = Annotated[float, AtLeast(0), AtMost(1)]
Rate = Annotated[float, AtLeast(0), Below(1)]
"""Such as a dropout rate: 1 would leave nothing."""


@dataclass(frozen=True)
class Hint:
    """A sentence after the error about a value that is not allowed."""

    text: str


class OptionType(NamedTuple):
    """Type, choices and range of a config field, as its annotation declares them."""

    scalar: Any
    """Type of the value, or of a list's items."""
    optional: bool = False
    is_list: bool = False
    choices: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    hint: str = ""

    @property
    def rule(self) -> str:
        """Rule for values in addition to their type: "one of a, b", "at least 0 and below 1"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return " and ".join(str(bound) for bound in self.bounds if not isinstance(bound, Limit))

    def broken_rule(self, value: Any) -> str:
        """The rule that a value breaks; empty if the value is allowed."""
        broken = [bound for bound in self.bounds if not bound.allows(value)]
        if (self.choices and value not in self.choices) or {*map(type, broken)} - {Limit}:
            return self.rule
        if broken:
            return str(broken[0])
        if self.scalar is float and not math.isfinite(value):
            return "finite"
        if self.scalar is int and not -MAX_INT <= value <= (MAX_COUNT if self.bounds else MAX_INT):
            return str(AtMost(MAX_COUNT)) if self.bounds else f"from -{MAX_INT} to {MAX_INT}"
        return ""


def parse_annotation(annotation: object) -> OptionType:
    """The declaration `T`, `T | None`, `list[T]`, `Literal[...]` or `Annotated[T, bound, ...]`."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        inner = parse_annotation(parts[0])
        bounds = tuple(part for part in parts[1:] if isinstance(part, Bound))
        hints = [part.text for part in parts[1:] if isinstance(part, Hint)]
        return inner._replace(
            bounds=inner.bounds + bounds, hint="".join(f" {hint}" for hint in hints)
        )
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
        if rule := declared.broken_rule(item):
            each = "each item of " * declared.is_list
            hint = declared.hint
            raise ToolkitError(f"{each}{path} must be {rule}, but is {item!r}.{hint}")


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

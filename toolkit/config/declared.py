"""Choices and ranges of options, declared in the types of config fields:

@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Options, section="training"):
    seed: NonNegativeInt = 1
    ema_decay: Annotated[float, AtLeast(0), Below(1)] = 0.0
    device: Literal["auto", "cpu", "cuda"] = "auto"
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import operator
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from toolkit.common.errors import ToolkitError

MAX_COUNT, MAX_INT = 2**31 - 1, 2**63 - 1
"""Upper limits of integers with a bound, which are counts, and of others, such as seeds."""


@dataclass(frozen=True)
class Bound:
    """A limit of a number; `str(bound)` completes the sentence "X must be ..."."""

    words: str
    holds: Callable[[Any, Any], bool]
    limit: int | float
    or_zero: bool = False
    """Whether 0 is allowed as well."""
    is_far: bool = False
    """Whether it is far above sensible values: only the error for a higher value names it."""

    def allows(self, value: int | float) -> bool:
        return self.holds(value, self.limit) or (self.or_zero and value == 0)

    def __str__(self) -> str:
        limit = f"{self.limit:g}" if isinstance(self.limit, float) else str(self.limit)
        return f"{'0 or ' * self.or_zero}{self.words} {limit}"


AtLeast = partial(Bound, "at least", operator.ge)
AtMost = partial(Bound, "at most", operator.le)
Above = partial(Bound, "above", operator.gt)
Below = partial(Bound, "below", operator.lt)
Limit = partial(AtMost, is_far=True)

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
        return " and ".join(str(bound) for bound in self.bounds if not bound.is_far)

    def broken_rule(self, value: Any) -> str:
        """The rule that a value breaks; empty if the value is allowed."""
        broken = [bound for bound in self.bounds if not bound.allows(value)]
        if (self.choices and value not in self.choices) or not all(it.is_far for it in broken):
            return self.rule
        if broken:
            return str(broken[0])
        if self.scalar is float and not math.isfinite(value):
            return "finite"
        if self.scalar is int and not -MAX_INT <= value <= (MAX_COUNT if self.bounds else MAX_INT):
            return str(AtMost(MAX_COUNT)) if self.bounds else f"from -{MAX_INT} to {MAX_INT}"
        return ""


def parse_annotation(annotation: object) -> OptionType:
    """The declaration `T`, `T | None`, `list[T]`, `Literal[...]` or `Annotated[T, bound, ...]`.

    A text in Annotated is a sentence after the error about a value that is not allowed.
    """
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        inner = parse_annotation(parts[0])
        bounds = tuple(part for part in parts[1:] if isinstance(part, Bound))
        hints = [part for part in parts[1:] if isinstance(part, str)]
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
    hints: dict[str, Any] = {
        name: annotation
        for ancestor in reversed(config.__mro__)
        for name, annotation in inspect.get_annotations(ancestor, eval_str=True).items()
    }
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
            raise ToolkitError(f"{each}{path} must be {rule}, but is {item!r}.{declared.hint}")


class Options:
    """Base class of configs: checks required fields, declared choices and ranges of an instance.

    A subclass with rules across fields checks them in `__post_init__`, after the one of its base.
    """

    __no_type_check__ = True  # run-time type checkers leave these classes to the check below

    section: ClassVar[str] = ""
    """Section of the options, for messages: "training" in "training.seed must be ..."."""

    help_titles: ClassVar[Mapping[str, str]] = {}
    """Field -> title in `--help` of it and the next ones that this class itself declares; the title
    of the empty name is that of the first ones."""

    required_fields: ClassVar[dict[str, str]] = {}
    """Field that must not be empty -> the message if it is."""

    positional: ClassVar[str] = ""
    """Field that takes the words without a flag; empty if none does."""

    word: ClassVar[str] = ""
    """First word after the command, such as the kind of a plot; empty for other commands."""

    def __init_subclass__(
        cls,
        section: str | None = None,
        title: str = "",
        titles: Mapping[str, str] | None = None,
        required: Mapping[str, str] | None = None,
        positional: str | None = None,
        word: str | None = None,
    ) -> None:
        super().__init_subclass__()
        cls.help_titles = titles or {"": title}
        inherited = ChainMap(*(getattr(base, "required_fields", {}) for base in cls.__bases__))
        cls.required_fields = {**inherited, **(required or {})}
        for name, value in {"section": section, "positional": positional, "word": word}.items():
            if value is not None:  # else that of its bases
                setattr(cls, name, value)

    def __post_init__(self) -> None:
        for name, message in self.required_fields.items():
            if not getattr(self, name):
                raise ToolkitError(message)
        prefix = f"{self.section}." if self.section else ""
        config: type = type(self)
        for name, declared in read_declarations(config).items():
            check_value(prefix + name, declared, getattr(self, name))


SCALAR_RULES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Option:
    """One field of one section, and how its values are read."""

    path: str
    """Name with its section, section.field; the field alone in a command without sections."""
    type: OptionType
    default: Any
    help: str
    separator: str | None = ","
    """Separator of a list given as one text; None if it is one item."""
    multi_word: bool = False
    """Takes every word up to the next flag: `--path A B C`."""
    advanced: bool = False
    """Shown by --help-all only."""
    group: str = ""
    """Title of the options that --help shows it with."""
    of_model: bool = False
    """Whether a trained model depends on it, so that evaluation cannot override it."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def section(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def flag(self) -> str:
        return to_flag(self.path)

    @property
    def rule(self) -> str:
        """Rule for values, for error messages."""
        one = SCALAR_RULES[self.type.scalar]
        return (f"a list, each item {one}" if self.type.is_list else one) + (
            " or none" * self.type.optional
        )


# Metadata of config fields. A list given as one text is split at commas unless it is NO_SPLIT. A
# MULTI_WORD option takes every word up to the next flag, as the positional one of a class does;
# those of a text are joined by commas. Only --help-all shows ADVANCED options. A trained model
# depends on options OF_MODEL. With its default, an option that came LATER than others of a task
# leaves the order of batches as it was before.
NO_SPLIT: dict[str, object] = {"separator": None}
MULTI_WORD: dict[str, object] = {"multi_word": True}
ADVANCED: dict[str, object] = {"advanced": True}
OF_MODEL: dict[str, object] = {"of_model": True}
LATER: dict[str, object] = {"later": True}
METADATA = {**NO_SPLIT, **MULTI_WORD, **ADVANCED, **OF_MODEL}


def to_flag(name: str) -> str:
    """Name or path of an option -> its flag."""
    return "--" + name.replace("_", "-")


def list_options(section: str, config: object) -> list[Option]:
    """The options that a config class, or an instance whose values are the defaults, declares.

    Raises a ToolkitError for fields of unsupported types.
    """
    cls = config if isinstance(config, type) else type(config)
    options = []
    for field, option in describe_fields(cls):
        path = f"{section}.{field.name}" if section else field.name
        if option.type.scalar not in SCALAR_RULES or (field.name == "name" and section):
            raise ToolkitError(
                f"{path} must be a field of type bool, int, float or str, a Literal of texts, a "
                f"list of these or one of them | None, and not be called name, but is "
                f"{field.type}. Change the config class."
            )
        options.append(replace(option, path=path, default=field_default(field, config)))
    return options


def index_by_path(options: Iterable[Option]) -> dict[str, Option]:
    """Path -> option."""
    return {option.path: option for option in options}


@cache
def describe_fields(config: type) -> list[tuple[dataclasses.Field[Any], Option]]:
    """The fields of a config class, those of its bases first, with their options."""
    types, texts = read_declarations(config), field_help(config)
    fields = {field.name: field for field in dataclasses.fields(config) if field.name in types}
    described: dict[str, tuple[dataclasses.Field[Any], Option]] = {}
    for ancestor in declaration_order(config):
        titles = vars(ancestor).get("help_titles", {})
        title = titles.get("", "")
        names = vars(ancestor).get("__annotations__", {})
        for name in [it for it in names if it in fields and it not in described]:
            title = titles.get(name, title)
            more = {"multi_word": name == getattr(config, "positional", ""), "group": title}
            more |= {k: it for k, it in fields[name].metadata.items() if k in METADATA}
            option = Option(name, types[name], None, texts.get(name, ""), **more)
            described[name] = fields[name], option
    return list(described.values())


def declaration_order(config: type) -> Iterator[type]:
    """The bases of a class, outermost first, then the class itself.

    Of an architecture the last base comes first: those before it add options.
    """
    bases = config.__bases__
    for ancestor in reversed(bases) if getattr(config, "section", "") == "arch" else bases:
        yield from declaration_order(ancestor)
    yield config


def field_default(field: dataclasses.Field[Any], config: object) -> Any:
    """The default of a field, or its value if `config` is an instance."""
    if not isinstance(config, type):
        return getattr(config, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def changed_options(config: object) -> set[str]:
    """The fields of a config whose values are not the defaults of its class."""
    cls: Any = type(config)
    return {
        field.name
        for field in dataclasses.fields(cls)
        if getattr(config, field.name) != field_default(field, cls)
    }


FieldDoc = tuple[str, str]
"""The annotation of a field, and the string under it."""


@cache
def read_field_docs(file: str) -> dict[str, dict[str, FieldDoc]]:
    """Class -> field -> the string under it, for the classes of a source file; imports nothing."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):  # byte code without a source file
        return {}
    docs: dict[str, dict[str, FieldDoc]] = {}
    for node in tree.body:
        body = node.body if isinstance(node, ast.ClassDef) else []
        for statement, following in pairwise(body):
            match node, statement, following:
                case (
                    ast.ClassDef(name=title),
                    ast.AnnAssign(target=ast.Name(id=name), annotation=annotation),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    doc = ast.unparse(annotation), " ".join(text.split())
                    docs.setdefault(title, {})[name] = doc
    return docs


def field_help(config: type) -> dict[str, str]:
    """Field -> help of a config class, inherited fields included."""
    docs: dict[str, FieldDoc] = {}
    for ancestor in reversed(config.__mro__[:-1]):  # the last one is object
        file = getattr(sys.modules.get(ancestor.__module__), "__file__", None)
        docs |= read_field_docs(file or "").get(ancestor.__name__, {})  # none in a session
    return {name: text for name, (_, text) in docs.items()}

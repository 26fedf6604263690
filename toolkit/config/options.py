"""One declaration per option: a field of a config class is a flag, a YAML key and a help text."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import types
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError


class Described(NamedTuple):
    annotation: str
    text: str


@cache
def described(file: str) -> dict[str, dict[str, Described]]:
    """Class -> field -> what stands there, for every class of a source file; imports nothing."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):  # no source beside the byte code
        return {}
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name: strings_under_fields(node) for node in classes}


def strings_under_fields(node: ast.ClassDef) -> dict[str, Described]:
    found = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            text = " ".join(below.value.value.split())
            found[field.target.id] = Described(ast.unparse(field.annotation), text)
    return found


def field_help(config: type) -> dict[str, str]:
    """Field -> help of a config class, inherited fields included."""
    found: dict[str, Described] = {}
    for ancestor in reversed(config.__mro__[:-1]):  # the last one is object
        found |= described(source_of(ancestor)).get(ancestor.__name__, {})
    return {name: field.text for name, field in found.items()}


def source_of(config: type) -> str:
    """The file a class is written in; empty for one typed at a prompt."""
    try:
        return inspect.getsourcefile(config) or ""
    except (OSError, TypeError):
        return ""


SCALARS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Option:
    """One field of one section, and how its values are read."""

    path: str
    """Where it is set: section.field, or the field alone in a command without sections."""
    scalar: type
    """bool, int, float or str: the value's type, or that of a list's items."""
    optional: bool
    many: bool
    default: Any
    help: str
    separator: str | None
    """What parts the items of a list given as one text; None where an item may hold anything."""
    greedy: bool
    """Takes every word up to the next flag: `--path A B C`."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def flag(self) -> str:
        return "--" + self.path.replace("_", "-")

    @property
    def adds_up(self) -> bool:
        """Whether repeated flags add to a list: where its items are not parted at commas."""
        return self.many and self.separator is None

    @property
    def rule(self) -> str:
        """What a value must be, for error messages."""
        one = SCALARS[self.scalar]
        return (f"a list, each item {one}" if self.many else one) + " or none" * self.optional


# Metadata of list fields. A list given as one text is parted at commas, unless it is WHOLE; a
# GREEDY one takes every word up to the next flag.
WHOLE: dict[str, Any] = {"separator": None}
GREEDY: dict[str, Any] = {"greedy": True}


def options_of(section: str, config: Any) -> list[Option]:
    """The options that a config class, or an instance whose values are the defaults, declares."""
    cls = config if isinstance(config, type) else type(config)
    types_, texts = typing.get_type_hints(cls), field_help(cls)
    return [
        option(section, f, types_[f.name], default_of(f, config), texts.get(f.name, ""))
        for f in dataclasses.fields(cls)
    ]


def default_of(field: dataclasses.Field[Any], config: Any) -> Any:
    if not isinstance(config, type):
        return getattr(config, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def option(section: str, field: Any, annotation: Any, default: Any, text: str) -> Option:
    path = f"{section}.{field.name}" if section else field.name
    scalar, optional, many = shape(annotation)
    if scalar not in SCALARS or (field.name == "name" and section):
        raise ToolkitError(
            f"{path} must be a field of type bool, int, float or str, a list of these or one of "
            f"them | None, and not be called name, but is {annotation}. Change the config class."
        )
    separator, greedy = field.metadata.get("separator", ","), field.metadata.get("greedy", False)
    return Option(path, scalar, optional, many, default, text, separator, greedy)


def shape(annotation: Any) -> tuple[Any, bool, bool]:
    """(scalar type, may be None, is a list) of a field's annotation."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        present = [part for part in parts if part is not type(None)]
        scalar, _, many = shape(present[0]) if len(present) == 1 else (None, False, False)
        return scalar, len(present) < len(parts), many
    if typing.get_origin(annotation) is list:
        return parts[0], False, True
    return annotation, False, False

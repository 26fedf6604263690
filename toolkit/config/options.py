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


class FieldDoc(NamedTuple):
    annotation: str
    text: str


@cache
def read_field_docs(file: str) -> dict[str, dict[str, FieldDoc]]:
    """Class -> field -> what stands there, for every class of a source file; imports nothing."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):  # no source beside the byte code
        return {}
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name: collect_field_docs(node) for node in classes}


def collect_field_docs(node: ast.ClassDef) -> dict[str, FieldDoc]:
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
            found[field.target.id] = FieldDoc(ast.unparse(field.annotation), text)
    return found


def field_help(config: type) -> dict[str, str]:
    """Field -> help of a config class, inherited fields included."""
    found: dict[str, FieldDoc] = {}
    for ancestor in reversed(config.__mro__[:-1]):  # the last one is object
        found |= read_field_docs(find_source_file(ancestor)).get(ancestor.__name__, {})
    return {name: field.text for name, field in found.items()}


def find_source_file(config: type) -> str:
    """The file a class is written in; empty for one typed at a prompt."""
    try:
        return inspect.getsourcefile(config) or ""
    except (OSError, TypeError):
        return ""


SCALAR_RULES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Option:
    """One field of one section, and how its values are read."""

    path: str
    """Where it is set: section.field, or the field alone in a command without sections."""
    scalar: type
    """bool, int, float or str: the value's type, or that of a list's items."""
    optional: bool
    is_list: bool
    default: Any
    help: str
    separator: str | None
    """What parts the items of a list given as one text; None where an item may hold anything."""
    multi_word: bool
    """Takes every word up to the next flag: `--path A B C`."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def flag(self) -> str:
        return "--" + self.path.replace("_", "-")

    @property
    def appends(self) -> bool:
        """Whether repeated flags add to a list: where its items are not parted at commas."""
        return self.is_list and self.separator is None

    @property
    def rule(self) -> str:
        """What a value must be, for error messages."""
        one = SCALAR_RULES[self.scalar]
        return (f"a list, each item {one}" if self.is_list else one) + " or none" * self.optional


# Metadata of list fields. A list given as one text is parted at commas, unless it is WHOLE; a
# GREEDY one takes every word up to the next flag.
NO_SPLIT: dict[str, Any] = {"separator": None}
MULTI_WORD: dict[str, Any] = {"greedy": True}


def list_options(section: str, config: Any) -> list[Option]:
    """The options that a config class, or an instance whose values are the defaults, declares."""
    cls = config if isinstance(config, type) else type(config)
    types_, texts = typing.get_type_hints(cls), field_help(cls)
    return [
        make_option(section, f, types_[f.name], field_default(f, config), texts.get(f.name, ""))
        for f in dataclasses.fields(cls)
    ]


def field_default(field: dataclasses.Field[Any], config: Any) -> Any:
    if not isinstance(config, type):
        return getattr(config, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def make_option(section: str, field: Any, annotation: Any, default: Any, text: str) -> Option:
    path = f"{section}.{field.name}" if section else field.name
    scalar, optional, many = parse_annotation(annotation)
    if scalar not in SCALAR_RULES or (field.name == "name" and section):
        raise ToolkitError(
            f"{path} must be a field of type bool, int, float or str, a list of these or one of "
            f"them | None, and not be called name, but is {annotation}. Change the config class."
        )
    separator, greedy = field.metadata.get("separator", ","), field.metadata.get("greedy", False)
    return Option(path, scalar, optional, many, default, text, separator, greedy)


def parse_annotation(annotation: Any) -> tuple[Any, bool, bool]:
    """(scalar type, may be None, is a list) of a field's annotation."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        present = [part for part in parts if part is not type(None)]
        scalar, _, many = (
            parse_annotation(present[0]) if len(present) == 1 else (None, False, False)
        )
        return scalar, len(present) < len(parts), many
    if typing.get_origin(annotation) is list:
        return parts[0], False, True
    return annotation, False, False

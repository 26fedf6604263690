"""The string under a field is its help: read from the source, since Python does not keep it."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path
from typing import NamedTuple


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

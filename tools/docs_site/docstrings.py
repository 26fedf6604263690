"""Docstrings as Markdown: equations keep their underscores, and indented blocks become code."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

CODE = re.compile(r"(`[^`]+`)")
COLUMNS = re.compile(r"\S {2,}\S")
SPECIAL = re.compile(r"([\\*_\[\]])")


class MarkdownDocstrings(griffe.Extension):
    """Converts docstrings, and gives NamedTuples the signature of their constructor."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        if "NamedTuple" in map(str, cls.bases):
            fields = [m for m in cls.attributes.values() if "instance-attribute" in m.labels]
            parameters = griffe.Parameters(griffe.Parameter("self"), *map(to_parameter, fields))
            cls.set_member("__init__", griffe.Function("__init__", parameters=parameters))


def to_parameter(field: griffe.Attribute) -> griffe.Parameter:
    kind = griffe.ParameterKind.positional_or_keyword
    return griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=field.value)


def to_markdown(text: str) -> str:
    """Docstring in plain text -> Markdown that shows the same characters."""
    paragraphs = re.split(r"\n\n+(?! {4})", text)
    return "\n\n".join(convert_paragraph(paragraph) for paragraph in paragraphs)


def convert_paragraph(text: str) -> str:
    """A paragraph; lines that are indented become code, and columns are kept."""
    if text.startswith("| "):
        return text
    if COLUMNS.search(text):
        return f"```text\n{text}\n```"
    words, _, code = text.partition("\n\n    ")
    escaped = "".join(part if CODE.match(part) else escape(part) for part in CODE.split(words))
    return f"{escaped}\n\n```python\n{textwrap.dedent('    ' + code)}\n```" if code else escaped


def escape(text: str) -> str:
    """Escape what Markdown or HTML would interpret, but keep the marks of list items."""
    text = SPECIAL.sub(r"\\\1", text).replace("<", "&lt;").replace("$", "&#36;")
    return re.sub(r"^\\\*(?= )", "*", text, flags=re.M)

"""Raw items, such as texts or questions with their passages, as a task reads them by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping, Sequence
from itertools import count, product, takewhile
from typing import Any, Literal, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JSON_TYPES

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
"""A column in a template, as in `Question: {question} Answer: {answer}`."""
LIST_AS_TEXT = re.compile(r"""\[\s*(['"]).*\1\s*\]""", re.DOTALL)
ItemValues = dict[str, Any]
"""Field -> its text, or its list of texts."""


class InputField(NamedTuple):
    """A part of an item."""

    names: tuple[str, ...]
    """Its name in results of `read_item`, and other names that tables and JSON may give it."""
    kind: Literal["text", "words", "tags", "texts"] = "text"
    """words: a list of words, or text with spaces between them. tags: the same, of texts or
    numbers. texts: a list, or columns such as option0, option1, ..."""
    required: bool = True
    column: str = ""
    """A name that the user gave it, which is looked for before the others; or a template."""

    @property
    def name(self) -> str:
        """Its name in results of `read_item`."""
        return self.names[0]

    @property
    def candidates(self) -> tuple[str, ...]:
        """Its names, in the order in which they are looked for."""
        return (self.column, self.name) if self.column else self.names


Fields = Sequence[InputField]


def rename_fields(fields: Fields, text_columns: str) -> tuple[InputField, ...]:
    """The fields with other names for the required ones, in their order, if the option has any."""
    if not text_columns:
        return tuple(fields)
    required = [field.name for field in fields if field.required]
    names = [name.strip() for name in text_columns.split(",")]
    if len(names) != len(required):
        raise ToolkitError(
            f"--text-columns must name {len(required)} columns, in place of {join(required)}, but "
            f"names {len(names)}."
        )
    return name_columns(fields, dict(zip(required, names, strict=True)))


def name_columns(fields: Fields, columns: Mapping[str, str]) -> tuple[InputField, ...]:
    """The fields with these columns; an optional one that has the name of a column is left out."""
    taken = {column for name, column in columns.items() if name != column}
    named = (field._replace(column=columns.get(field.name, "")) for field in fields)
    return tuple(field for field in named if field.required or field.name not in taken)


def read_item(fields: Fields, item: object) -> ItemValues:
    """The values of an item: text, a sequence in the order of the fields, or a mapping. Raises a
    ToolkitError if a field is missing or of another type.
    """
    if isinstance(item, Mapping):
        return read_record(fields, item)
    [first, *others] = [field for field in fields if field.required]
    if not others:
        return {first.name: to_value(first, item)}
    if isinstance(item, Sequence) and not isinstance(item, str | bytes):
        return read_cells(fields, item)
    raise ToolkitError(
        f"an item must have {join([first.name, *(f.name for f in others)])}, as a tuple or a "
        f"mapping, but is {describe(item)}."
    )


def read_cells(fields: Fields, cells: Sequence[object]) -> ItemValues:
    """The required fields in their order; a list of texts takes all further cells."""
    required = [field for field in fields if field.required]
    names, last = [field.name for field in required], required[-1]
    if last.kind == "texts" and len(cells) > len(required):
        cells = [*cells[: len(required) - 1], list(cells[len(required) - 1 :])]
    if len(cells) != len(required):
        raise ToolkitError(
            f"an item must have {len(required)} part{'s' * (len(required) > 1)}, {join(names)}, "
            f"but has {len(cells)}."
        )
    return {f.name: to_value(f, cell) for f, cell in zip(required, cells, strict=True)}


def read_record(fields: Fields, record: Mapping[str, Any]) -> ItemValues:
    """The values of the fields that the record has; further keys are ignored."""
    check_names(fields, record)
    values: ItemValues = {}
    for field in fields:
        if names := find_names(field, record):
            template, whole = field.candidates[0], names[0] in field.candidates
            if not whole and PLACEHOLDER.findall(template) == names:
                parts = PLACEHOLDER.split(template)
                parts[1::2] = [str(to_value(field, record[name], name)) for name in names]
                values[field.name] = "".join(parts)
                continue
            value = record[names[0]] if whole else [record[name] for name in names]
            values[field.name] = to_value(field, value, names[0])
    return values


def check_names(fields: Fields, names: Collection[str], options: str = "--text-columns") -> None:
    """Raise unless every required field has one of these names; `options` can give others."""
    required = [field for field in fields if field.required]
    missing = [field.name for field in required if not find_names(field, names)]
    if missing:
        wanted = join([field.name for field in required])
        found = join(sorted(set(names))[:8]) or "nothing"
        raise ToolkitError(
            f"the task reads {wanted}, but {join(missing)} is missing among {found}. Rename it, or "
            f"give its name with {options}."
        )


def find_names(field: InputField, names: Container[str]) -> list[str]:
    """The name among `names` that a field has, empty without one. Of `options` also option0,
    option1, ... or option1, ...; of a template, the columns that it names.
    """
    for name in field.candidates:
        if name in names:
            return [name]
        if (parts := PLACEHOLDER.findall(name)) and all(part in names for part in parts):
            return list(parts)
    stems = [name.removesuffix("s") for name in field.candidates if field.kind == "texts"]
    for stem, first in product(stems, (0, 1)):
        numbered = (f"{stem}{number}" for number in count(first))
        if found := list(takewhile(names.__contains__, numbered)):
            return found
    return []


def to_value(field: InputField, value: object, name: str = "") -> str | list[Any]:
    """The text, or the texts of a list, of a field."""
    name = name or field.name
    if field.kind in ("words", "tags") and isinstance(value, str):
        if LIST_AS_TEXT.fullmatch(value.strip()):
            raise ToolkitError(
                f"{name!r} must be words, but is a list as Python prints it, {value[:30]!r}... "
                f"Save the rows as JSON lines or Parquet."
            )
        return split_at_spaces(replace_invalid(value))
    if field.kind == "tags" and isinstance(value, Sequence):
        return [tag if isinstance(tag, int) else str(tag) for tag in value]
    if field.kind == "text":
        if not isinstance(value, str):
            raise ToolkitError(f"{name!r} must be text, but is {describe(value)}.")
        return replace_invalid(value)
    if field.kind == "texts" and isinstance(value, Mapping):  # as {"text": [...], "label": [...]}
        value = value.get("text", value)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ToolkitError(f"{name!r} must be a list of texts, but is {describe(value)}.")
    for text in value:
        if not isinstance(text, str):
            raise ToolkitError(f"{name!r} must be a list of texts, but has {describe(text)}.")
    texts = [replace_invalid(text) for text in value]
    return [" ".join(split_at_spaces(text)) for text in texts] if field.kind == "words" else texts


def split_at_spaces(text: str) -> list[str]:
    """The words between spaces, tabs and line ends; a no-break space belongs to a word (10 000)."""
    return re.findall(r"[^ \t\r\n]+", text)


def replace_invalid(text: str) -> str:
    """Replace surrogates and NUL, which JSON can encode but no text contains."""
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text)


def to_single_line(text: str) -> str:
    """Replace line ends and tabs, which byte-level vocabularies can produce, by spaces."""
    return re.sub(r"[\t\r\n]", " ", text)


def describe(value: object) -> str:
    """The type of a value in the words of JSON, with the keys of an object, for messages."""
    if isinstance(value, dict):
        return f"an object with {join([str(key) for key in value][:5]) or 'nothing'}"
    return JSON_TYPES.get(type(value), f"of type {type(value).__name__}")


def join(names: Sequence[str]) -> str:
    """'a', 'b' and 'c'."""
    quoted = [repr(name) for name in names]
    return " and ".join(filter(None, [", ".join(quoted[:-1]), *quoted[-1:]]))

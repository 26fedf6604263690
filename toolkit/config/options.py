"""One declaration per option: a field of a config class is a flag, a YAML key and a help text."""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import OptionType, read_declarations

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
    def appends(self) -> bool:
        """Whether repeated flags add to a list: if its items are not separated by commas."""
        return self.type.is_list and self.separator is None

    @property
    def rule(self) -> str:
        """Rule for values, for error messages."""
        one = SCALAR_RULES[self.type.scalar]
        return (f"a list, each item {one}" if self.type.is_list else one) + (
            " or none" * self.type.optional
        )


# Metadata of config fields. A list given as one text is split at commas unless it is NO_SPLIT. A
# MULTI_WORD option takes every word up to the next flag, as the POSITIONAL one of a class does;
# those of a text are joined by commas. Only --help-all shows ADVANCED options. A trained model
# depends on options OF_MODEL.
NO_SPLIT: dict[str, object] = {"separator": None}
MULTI_WORD: dict[str, object] = {"multi_word": True}
ADVANCED: dict[str, object] = {"advanced": True}
OF_MODEL: dict[str, object] = {"of_model": True}


def to_flag(name: str) -> str:
    """Name or path of an option -> its flag."""
    return "--" + name.replace("_", "-")


def list_options(section: str, config: object) -> list[Option]:
    """The options that a config class, or an instance whose values are the defaults, declares."""
    cls = config if isinstance(config, type) else type(config)
    if cls is config:
        return [*list_class_options(section, cls)]
    return [make_option(section, field, config) for field in describe_fields(cls)]


@cache
def list_class_options(section: str, config: type) -> tuple[Option, ...]:
    """The options that a config class declares."""
    return tuple(make_option(section, field, config) for field in describe_fields(config))


def index_by_path(options: Iterable[Option]) -> dict[str, Option]:
    """Path -> option."""
    return {option.path: option for option in options}


class FieldDescription(NamedTuple):
    """A field of a config class with its declaration, help text and group."""

    field: dataclasses.Field[Any]
    type: OptionType
    help: str
    group: str


@cache
def describe_fields(config: type) -> list[FieldDescription]:
    """The fields of a config class in the order of their declarations, base classes first."""
    types, texts = read_declarations(config), field_help(config)
    fields = {field.name: field for field in dataclasses.fields(config) if field.name in types}
    described: dict[str, FieldDescription] = {}
    for ancestor in declaration_order(config):
        title = vars(ancestor).get("help_title", "")
        for name in vars(ancestor).get("__annotations__", {}):
            if name in fields and name not in described:
                described[name] = FieldDescription(
                    fields[name], types[name], texts.get(name, ""), title
                )
    return list(described.values())


def declaration_order(config: type) -> Iterator[type]:
    """The bases of a class, outermost first, then the class itself."""
    for ancestor in config.__bases__:
        yield from declaration_order(ancestor)
    yield config


def make_option(section: str, described: FieldDescription, config: object) -> Option:
    """The option that a field declares; raises a ToolkitError for unsupported types."""
    field, metadata = described.field, described.field.metadata
    path = f"{section}.{field.name}" if section else field.name
    if described.type.scalar not in SCALAR_RULES or (field.name == "name" and section):
        raise ToolkitError(
            f"{path} must be a field of type bool, int, float or str, a Literal of texts, a list "
            f"of these or one of them | None, and not be called name, but is {field.type}. Change "
            f"the config class."
        )
    return Option(
        path,
        described.type,
        field_default(field, config),
        described.help,
        separator=metadata.get("separator", ","),
        multi_word=metadata.get("multi_word", field.name == getattr(config, "POSITIONAL", "")),
        advanced=metadata.get("advanced", False),
        group=described.group,
        of_model=metadata.get("of_model", False),
    )


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


class FieldDoc(NamedTuple):
    """The annotation of a field, and the string under it."""

    annotation: str
    text: str


@cache
def read_field_docs(file: str) -> dict[str, dict[str, FieldDoc]]:
    """Class -> field -> the string under it, for the classes of a source file; imports nothing."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):  # byte code without a source file
        return {}
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name: collect_field_docs(node) for node in classes}


def collect_field_docs(node: ast.ClassDef) -> dict[str, FieldDoc]:
    """Field -> annotation and string under it, for one class of a source file."""
    docs = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name), annotation=annotation),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = FieldDoc(ast.unparse(annotation), " ".join(text.split()))
    return docs


def field_help(config: type) -> dict[str, str]:
    """Field -> help of a config class, inherited fields included."""
    docs: dict[str, FieldDoc] = {}
    for ancestor in reversed(config.__mro__[:-1]):  # the last one is object
        docs |= read_field_docs(find_source_file(ancestor)).get(ancestor.__name__, {})
    return {name: doc.text for name, doc in docs.items()}


def find_source_file(config: type) -> str:
    """The file that defines a class; empty for a class of an interactive session."""
    return getattr(sys.modules.get(config.__module__), "__file__", None) or ""

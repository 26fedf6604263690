"""One option as a section of a page: its meaning, values, default and other names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import MISSING
from typing import Any

from toolkit.common.registry import REGISTRIES
from toolkit.config.declared import Option
from tools.docs_site.catalog import EVERY, SINGLE, CatalogEntry, command_modes, list_entries
from tools.docs_site.other_names import names_of_option, terms

TYPES = {bool: "true or false", int: "integer", float: "number", str: "text"}
LIST_TYPES = {bool: "switches", int: "integers", float: "numbers", str: "texts"}
UNSET = ("", None, MISSING)
CODE = re.compile(r"(?<![`\w-])(toolkit-[a-z]+|--[a-z]\w*(?:[.-]\w+)*)")
"""Commands and flags in plain text."""
SPECIAL = re.compile(r"[\\`*_\[\]<>]")


def entry_section(entry: CatalogEntry) -> str:
    """Markdown of an option, with the key as anchor."""
    option = entry.option
    facts = [
        owners_fact(entry),
        "" if entry.section == EVERY else f"Configuration key: `{option.path}`",
        "Positional argument: needs no flag" if is_positional(entry) else "",
        f"Value: {describe_type(option)}",
        defaults_fact(entry),
        "Advanced: only `--help-all` shows it" if option.advanced else "",
        "Part of the model: fixed once it is trained" if option.of_model else "",
        also_called(entry.key),
    ]
    lines = [f"- {fact}" for fact in facts if fact]
    heading = f"### `{entry.flag}`{addition(entry)} {{ #{anchor(entry)} }}"
    return "\n".join([heading, "", mark_up(option.help), "", *lines, ""])


def addition(entry: CatalogEntry) -> str:
    """Words after the flag in the heading: a term, and the first owner of a further entry."""
    flag = entry.flag.rpartition(".")[2].strip("-")
    term = "".join(f": {term}" for term in terms(entry.key)[:1] if term != flag)
    return term if is_first(entry) else f"{term} ({next(iter(entry.defaults))})"


def is_first(entry: CatalogEntry) -> bool:
    """Whether no earlier entry has the same key."""
    return next(other for other in list_entries() if other.key == entry.key) is entry


def is_positional(entry: CatalogEntry) -> bool:
    commands = command_modes().get(entry.section, command_modes()["train"])
    return any(command.positional == entry.option.path for command in commands.values())


def anchor(entry: CatalogEntry) -> str:
    """Identifier of the section; a further entry with the same key ends in its first owner."""
    name = entry.key.replace(".", "-").replace("_", "-")
    owner = next(iter(entry.defaults)).replace("_", "-").replace(" ", "-").strip("-")
    return name if is_first(entry) else f"{name}-{owner}"


def owners_fact(entry: CatalogEntry) -> str:
    """The components or modes that have the option, unless all of a command have it."""
    if SINGLE in entry.defaults:
        return ""
    registry = REGISTRIES.get(entry.section)
    names = registry.families() if registry else entry.defaults
    return f"Of: {join_code(name for name in names if name in entry.defaults)}"


def describe_type(option: Option) -> str:
    kind = option.type
    if kind.choices:
        words = ", ".join(f"`{choice}`" for choice in kind.choices)
        text = f"one of {words}" if not kind.is_list else f"list of {words}"
    else:
        name = (LIST_TYPES if kind.is_list else TYPES)[kind.scalar]
        rule = f", each {kind.rule}" if kind.is_list else f", {kind.rule}"
        text = ("list of " if kind.is_list else "") + name + (rule if kind.rule else "")
    return text + list_note(option) + (" (or `none`)" if accepts_none(option) else "")


def list_note(option: Option) -> str:
    if not option.type.is_list:
        return ""
    if option.multi_word:
        return ", all words up to the next flag"
    return ", separated by commas" if option.separator else ", one for each flag"


def accepts_none(option: Option) -> bool:
    return option.type.optional and option.type.scalar is not str


def defaults_fact(entry: CatalogEntry) -> str:
    """The default, or all defaults of its components."""
    texts = list(dict.fromkeys(format_default(it) or "none" for it in entry.defaults.values()))
    if len(texts) > 1:
        return f"Defaults: {', '.join(texts)}, in the tables above"
    return f"Default: {texts[0]}" if texts != ["none"] else ""


def format_default(default: Any) -> str:
    """The default as code; empty if the help says what happens without the option."""
    if isinstance(default, list):
        default = ",".join(map(str, default))
    if isinstance(default, bool):
        default = str(default).lower()
    return "" if default in UNSET else f"`{default}`"


def also_called(key: str) -> str:
    """Terms for the option, and its names in other toolkits."""
    names = [f"{title} {join_code(names)}" for title, names in names_of_option(key).items()]
    found = [*terms(key)[1:], *names]
    return f"Also called: {'; '.join(found)}" if found else ""


def join_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def mark_up(text: str) -> str:
    """Plain help text as Markdown: flags and commands are code."""
    parts = CODE.split(text)
    parts[::2] = [SPECIAL.sub(r"\\\g<0>", part) for part in parts[::2]]
    parts[1::2] = [f"`{part}`" for part in parts[1::2]]
    return "".join(parts)

"""The text of --help: the command first, then its options in groups.

Without component names it reads only torch-free tables; with them it imports those components.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

import toolkit
from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.plugins import Plugin
from toolkit.common.registry import CALLBACKS, POSITIONS, Entry, fold_sizes
from toolkit.config.command import Command, format_columns, wrap_paragraph
from toolkit.config.declared import Option, index_by_path, list_options, to_flag
from toolkit.config.load import early_values, resolve
from toolkit.config.names import RESERVED_NAMES, find_field_doc
from toolkit.config.sections import RunConfig
from toolkit.config.values import CALLBACK, FALSE_WORDS, callback_section, get_value, read_words

SHORT_NAMES = {path: to_flag(name) for name, path in RESERVED_NAMES.items()}
METAVARS = {bool: "", int: "N", float: "X", str: "TEXT"}
MAX_CHOICES_WIDTH = 40


def help_text(
    command: Command,
    components: Mapping[str, str],
    plugins: Sequence[Plugin] = (),
    *,
    advanced: bool = False,
) -> str:
    """`components` is section -> name; components of `plugins` are included."""
    named = list(components.items())
    for section, registry in command.components.items():
        entries = [entry for plugin in plugins for entry in registry.list_entries(plugin.module)]
        named += [(section, e.name) for e in entries if (section, e.name) not in named]
    titles = [
        (f"options of {section} {name}", section, command.components[section][name], "")
        for section, name in named
    ]
    if command.config is RunConfig:
        observers = [it for plugin in plugins for it in CALLBACKS.list_entries(plugin.module)]
        titles += [
            (f"callback {it.name}", callback_section(it.name), it, CALLBACKS.summary(it.name))
            for it in observers
        ]
    options = index_by_path(command.fixed_options())
    positional = options.pop(command.positional, None)
    paths = [path for path in command.common if path.partition(".")[0] not in components]
    common = [common_option(command, options.pop(path, None), path) for path in paths]
    parts = [
        f"usage: {usage(command, positional)}",
        wrap_paragraph(command.summary),
        f"example:\n  {command.example}",
        add_title("arguments", format_columns([argument(positional)])) if positional else "",
        add_title("common options", format_columns(common)),
        *(component_names(command, section) for section in command.components),
        *(component_options(*each, advanced) for each in titles),
        *grouped_options(list(options.values()), advanced),
        add_title("options of every command", format_options(command.command_line_options())),
        *closing_notes(command, options.values(), advanced),
    ]
    return "\n\n".join(part for part in parts if part)


def usage(command: Command, positional: Option | None) -> str:
    """The usage line of a command."""
    first = [argument(positional)[0]] if positional else []
    required = [f"--{it} NAME" for it in ("arch", "task") if it in command.components]
    return " ".join([command.name, *first, *required, "[options]"])


def argument(option: Option) -> tuple[str, str]:
    """Placeholder and help of the words without a flag."""
    return option.name.upper() + "..." * option.type.is_list, option.help


def component_names(command: Command, section: str) -> str:
    """The names to choose from in a section, with their summaries."""
    registry, named = command.components[section], command.defaults.get(section)
    default = f", {named} by default" if named else ""
    default = ", by default that of the task" if section == "criterion" else default
    title = f"{to_flag(section)} NAME, the {registry.kind}{default}"
    if section not in ("arch", "task", "format"):  # the names speak for themselves
        return add_title(title, textwrap.indent(wrap_paragraph(", ".join(registry.names())), "  "))
    rows = [
        (fold_sizes(name, sizes), registry.summary(name))
        for name, sizes in registry.families().items()
    ]
    return add_title(title, format_columns(rows))


def common_option(command: Command, option: Option | None, path: str) -> tuple[str, str]:
    """Flag and help; for a component's option, read from its source without importing it."""
    if option:
        return option_row(option)
    section, _, name = path.rpartition(".")
    module = command.components[section].builtins[command.defaults[section]].module
    doc = find_field_doc(module, name)
    assert doc is not None, f"{module} declares {name}"
    return f"{SHORT_NAMES.get(path, to_flag(path))} {guess_metavar(doc[0])}", doc[1]


def component_options(title: str, section: str, entry: Entry, summary: str, advanced: bool) -> str:
    """The summary and the options of a component."""
    options = format_options(list_options(section, entry.config), advanced)
    indented = textwrap.indent(wrap_paragraph(summary), "  ")
    return add_title(title, "\n".join(filter(None, [indented, options])))


def grouped_options(options: Sequence[Option], advanced: bool) -> list[str]:
    """These options under the titles of their groups."""
    groups: dict[str, list[Option]] = {}
    for option in options:
        of_section = f" of section {option.section}" if option.section else ""
        title = option.group or f"further options{of_section}"
        groups.setdefault(title, []).append(option)
    return [add_title(title, format_options(its, advanced)) for title, its in groups.items()]


def format_options(options: Sequence[Option], advanced: bool = True) -> str:
    """Rows for the options; advanced ones are optional."""
    return format_columns([option_row(o) for o in options if advanced or not o.advanced])


def option_row(option: Option) -> tuple[str, str]:
    """The flag with its metavar, and its help with range and default."""
    term = f"{SHORT_NAMES.get(option.path, option.flag)} {metavar(option)}".rstrip()
    rule = option.type.rule
    is_count = option.type.scalar is int and rule in ("at least 0", "at least 1")
    notes = [] if "{" in term or is_count else [rule]
    default: Any = option.default
    if default not in (None, "", False, []) and default is not MISSING:
        text = ",".join(map(str, default)) if option.type.is_list else str(default)
        notes.append(f"default: {text.lower() if default is True else text}")
    note = ", ".join(note for note in notes if note)
    return term, option.help + (f" ({note})" if note else "")


def metavar(option: Option) -> str:
    """The placeholder of an option's value: its choices, or its type."""
    choices = "{" + ",".join(option.type.choices) + "}"
    if option.type.choices and len(choices) <= MAX_CHOICES_WIDTH:
        return choices + "..." * option.type.is_list
    return METAVARS[option.type.scalar] + "..." * option.type.is_list


def guess_metavar(annotation: str) -> str:
    """The metavar for an annotation that is known only as text."""
    if choices := re.findall(r"['\"](\w+)['\"]", annotation):
        return "{" + ",".join(choices) + "}"
    words = {"int": "N", "float": "X", "fraction": "X", "rate": "X"}
    return next((short for word, short in words.items() if word in annotation.lower()), "TEXT")


def add_title(title: str, text: str) -> str:
    """The text below its title; empty without text."""
    return f"{title}:\n{text}" if text else ""


def closing_notes(command: Command, options: Iterable[Option], advanced: bool) -> Iterator[str]:
    """A paragraph on components, and the number of options that only --help-all shows."""
    for first in [*command.components][:1]:
        yield wrap_paragraph(
            f"Components have their own options: {command.name} {to_flag(first)} NAME --help shows "
            "them, and --user-dir DIR adds yours. The last part of an option's name is enough if "
            "it is unambiguous. --option false switches off what is on by default. A --config file "
            "holds the same options by section; --print-config writes one."
        )
    if hidden := 0 if advanced else sum(option.advanced for option in options):
        yield f"--help-all also shows {hidden} advanced option{'s'[: hidden > 1]}."


LISTS = {
    "archs": "arch",
    "tasks": "task",
    "criteria": "criterion",
    "optimizers": "optimizer",
    "lr_schedulers": "lr_scheduler",
    "formats": "format",
    "callbacks": "callback",
    "positions": "position",
}
RECIPES = "recipes"


def handle_info_flags(argv: Sequence[str], command: Command) -> str | None:
    """The text to print; None if there is no such flag and the command runs."""
    values = early_values(read_words(argv), command)
    flags = ("version", "help", "help_all", "print_config")
    asked = [it for it in flags if str(get_value(values, it, "no")).lower() not in FALSE_WORDS]
    if not asked and "list" not in values:
        return None
    if "version" in asked:
        return f"{command.name} {toolkit.__version__}"
    if asked == ["print_config"] and "list" not in values:
        from toolkit.config.serialize import print_config  # PyYAML is slow to import

        return print_config(resolve(argv, command))
    loaded = [plugins.load_folder(folder) for folder in get_value(values, "user_dir", [])]
    if "help" in asked or "help_all" in asked:
        named = {section: values.get(f"{section}.name") for section in command.components}
        components = {section: str(name.value) for section, name in named.items() if name}
        return help_text(command, components, loaded, advanced="help_all" in asked)
    plugins.load_installed()
    return list_components(command, str(values["list"].value))


def list_components(command: Command, kind: str) -> str:
    """Name and summary of every component of one kind, or of the recipes."""
    is_run = command.config is RunConfig
    if is_run and kind == RECIPES:
        from toolkit.config.yaml_files import list_recipes  # PyYAML is slow to import

        return format_columns(list_recipes().items(), indent=0)
    section = LISTS.get(kind.replace("-", "_"), "")
    more = {CALLBACK: CALLBACKS, "position": POSITIONS} if is_run else {}
    registries = {**command.components, **more}
    if section not in registries:
        known = [name for name, section in LISTS.items() if section in registries]
        known += [RECIPES] * is_run
        raise ToolkitError(f"--list must be one of {', '.join(known)}, but is {kind!r}.")
    registry = registries[section]
    if not registry.names():
        return f"no {kind}; --user-dir adds yours"
    return format_columns([(name, registry.summary(name)) for name in registry.names()], indent=0)

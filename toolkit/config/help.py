"""The text of --help: teaches the command first, then lists its options section by section.

Without component names it reads only torch-free tables; with them it loads those components alone.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING

from toolkit.common.plugins import Plugin
from toolkit.common.registry import PROJECT
from toolkit.config.command import Command
from toolkit.config.names import RESERVED_NAMES
from toolkit.config.options import FieldDoc, Option, list_options, read_field_docs

TERM_WIDTH = 34


def format_columns(rows: Iterable[tuple[str, str]], *, indent: int = 2) -> str:
    """Terms that are too long for their column stand on a line of their own."""
    rows = list(rows)
    left = min(TERM_WIDTH, indent + 2 + max((len(term) for term, _ in rows), default=0))
    return "\n".join(format_row(term, text, left, indent) for term, text in rows)


def format_row(term: str, text: str, left: int, indent: int) -> str:
    start = " " * indent + term
    lines = textwrap.wrap(text, max(30, terminal_width() - left), break_on_hyphens=False) or [""]
    if len(start) + 2 > left:
        lines = [start, *(" " * left + line for line in lines)]
    else:
        lines = [start.ljust(left) + lines[0], *(" " * left + line for line in lines[1:])]
    return "\n".join(line.rstrip() for line in lines)


def wrap_paragraph(text: str) -> str:
    return textwrap.fill(text, terminal_width(), break_on_hyphens=False)


def terminal_width() -> int:
    return min(100, shutil.get_terminal_size((100, 24)).columns)


SHORT_NAMES = {path: f"--{name.replace('_', '-')}" for name, path in RESERVED_NAMES.items()}
METAVARS = {"int": "N", "float": "X", "str": "TEXT"}


def help_text(command: Command, components: Mapping[str, str], plugins: Sequence[Plugin]) -> str:
    """`named` is section -> component; `folders` are plugins, whose components are shown too."""
    shown = list(components.items())
    for section, registry in command.components.items():
        entries = [entry for plugin in plugins for entry in registry.list_entries(plugin.module)]
        shown += [(section, e.name) for e in entries if (section, e.name) not in shown]
    parts = [
        f"usage: {usage(command)}",
        wrap_paragraph(command.summary),
        f"example:\n  {command.example}",
    ]
    parts += [component_names(command, section) for section in command.components]
    parts += [
        add_title("arguments", arguments(command)),
        add_title("common options", common_options(command)),
    ]
    parts += [component_options(command, section, name) for section, name in shown]
    parts += [section_options(command, section) for section in command.fixed_sections()]
    parts += [
        add_title("options of every command", format_options(command.command_line)),
        closing_note(command),
    ]
    return "\n\n".join(part for part in parts if part)


def usage(command: Command) -> str:
    options = {option.path: option for option in command.fixed_options()}
    words = [command.name]
    if command.positional:
        option = options[command.positional]
        words.append(option.name.upper() + "..." * option.is_list)
    return " ".join([*words, *["--arch NAME --task NAME"] * bool(command.components), "[options]"])


def arguments(command: Command) -> str:
    """What words without a flag are, in a command without sections."""
    return format_columns(
        (option.name.upper() + "..." * option.is_list, option.help)
        for option in command.fixed_options()
        if option.path == command.positional and not command.components
    )


def component_names(command: Command, section: str) -> str:
    registry = command.components[section]
    named = command.defaults.get(section)
    default = f", {named} unless named" if named else ""
    default = ", the task's own unless named" if section == "criterion" else default
    title = f"--{section.replace('_', '-')} NAME, the {registry.kind}{default}"
    return add_title(
        title, format_columns([(name, registry.summary(name)) for name in registry.names()])
    )


def common_options(command: Command) -> str:
    """The options most runs set; those of components from their source text, without importing."""
    options = {option.path: option for option in command.fixed_options()}
    rows = []
    for path in command.common:
        section, _, name = path.rpartition(".")
        if path in options:
            rows.append(option_row(options[path]))
        else:
            found = find_unimported_field(
                command.components[section].builtins[command.defaults[section]].module, name
            )
            rows.append((f"{SHORT_NAMES[path]} {METAVARS[found.annotation]}", found.text))
    return format_columns(rows)


def find_unimported_field(module: str, name: str) -> FieldDoc:
    """A field as the source of a component tells it, or that of a neighbor which it inherits."""
    own = PROJECT.joinpath(*module.split(".")).with_suffix(".py")
    files = [own, *sorted(own.parent.glob("*.py"))]
    classes = (fields for file in files for fields in read_field_docs(str(file)).values())
    return next(fields[name] for fields in classes if name in fields)


def component_options(command: Command, section: str, name: str) -> str:
    options = list_options(section, command.components[section][name].config)
    return add_title(f"options of {section} {name}", format_options(options))


def section_options(command: Command, section: str) -> str:
    """The options of a section that are not kind the common ones."""
    options = list_options(section, command.fixed_sections()[section])
    title = f"further options of section {section}" if section else "further options"
    told = (*command.common, *([] if command.components else [command.positional]))
    return add_title(
        title, format_options([option for option in options if option.path not in told])
    )


def format_options(options: Sequence[Option]) -> str:
    return format_columns([option_row(option) for option in options])


def option_row(option: Option) -> tuple[str, str]:
    """The flag with what it takes, and its help with the default."""
    flag = SHORT_NAMES.get(option.path, option.flag)
    value = (
        ""
        if option.scalar is bool
        else " " + METAVARS[option.scalar.__name__] + "..." * option.is_list
    )
    default = option.default
    shown = default not in (None, "", False, []) and not isinstance(default, type(MISSING))
    default = "true" if default is True else default
    default = ",".join(map(str, default)) if option.is_list else default
    return flag + value, option.help + (f" (default: {default})" if shown else "")


def add_title(title: str, text: str) -> str:
    return f"{title}:\n{text}" if text else ""


def closing_note(command: Command) -> str:
    if not command.components:
        return ""
    return wrap_paragraph(
        f"Components have options of their own: {command.name} --arch NAME --task NAME --help "
        "shows them, and --user-dir DIR adds yours. The last part of an option is enough where it "
        "names one option only: --train-subset for --data.train-subset. What is on by default is "
        "switched off with --option false. A --config file holds the "
        "same options by section; --print-config writes one."
    )

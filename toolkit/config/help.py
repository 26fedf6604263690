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
from toolkit.config.names import RESERVED
from toolkit.config.options import Described, Option, described, options_of

LEFT = 34


def columns(rows: Iterable[tuple[str, str]], *, indent: int = 2) -> str:
    """Terms that are too long for their column stand on a line of their own."""
    rows = list(rows)
    left = min(LEFT, indent + 2 + max((len(term) for term, _ in rows), default=0))
    return "\n".join(row(term, text, left, indent) for term, text in rows)


def row(term: str, text: str, left: int, indent: int) -> str:
    start = " " * indent + term
    lines = textwrap.wrap(text, max(30, width() - left), break_on_hyphens=False) or [""]
    if len(start) + 2 > left:
        lines = [start, *(" " * left + line for line in lines)]
    else:
        lines = [start.ljust(left) + lines[0], *(" " * left + line for line in lines[1:])]
    return "\n".join(line.rstrip() for line in lines)


def paragraph(text: str) -> str:
    return textwrap.fill(text, width(), break_on_hyphens=False)


def width() -> int:
    return min(100, shutil.get_terminal_size((100, 24)).columns)


SHORT = {path: f"--{name.replace('_', '-')}" for name, path in RESERVED.items()}
LETTERS = {"int": "N", "float": "X", "str": "TEXT"}


def help_text(command: Command, named: Mapping[str, str], folders: Sequence[Plugin]) -> str:
    """`named` is section -> component; `folders` are plugins, whose components are shown too."""
    shown = list(named.items())
    for section, registry in command.components.items():
        entries = [entry for plugin in folders for entry in registry.entries_of(plugin.module)]
        shown += [(section, e.name) for e in entries if (section, e.name) not in shown]
    parts = [
        f"usage: {usage(command)}",
        paragraph(command.summary),
        f"example:\n  {command.example}",
    ]
    parts += [known(command, section) for section in command.components]
    parts += [titled("arguments", arguments(command)), titled("common options", common(command))]
    parts += [component(command, section, name) for section, name in shown]
    parts += [plain(command, section) for section in command.plain_sections()]
    parts += [titled("options of every command", table(command.command_line)), closing(command)]
    return "\n\n".join(part for part in parts if part)


def usage(command: Command) -> str:
    options = {option.path: option for option in command.plain_options()}
    words = [command.name]
    if command.positional:
        option = options[command.positional]
        words.append(option.name.upper() + "..." * option.many)
    return " ".join([*words, *["--arch NAME --task NAME"] * bool(command.components), "[options]"])


def arguments(command: Command) -> str:
    """What words without a flag are, in a command without sections."""
    return columns(
        (option.name.upper() + "..." * option.many, option.help)
        for option in command.plain_options()
        if option.path == command.positional and not command.components
    )


def known(command: Command, section: str) -> str:
    registry = command.components[section]
    named = command.defaults.get(section)
    default = f", {named} unless named" if named else ""
    default = ", the task's own unless named" if section == "criterion" else default
    title = f"--{section.replace('_', '-')} NAME, the {registry.kind}{default}"
    return titled(title, columns([(name, registry.summary(name)) for name in registry.names()]))


def common(command: Command) -> str:
    """The options most runs set; those of components from their source text, without importing."""
    options = {option.path: option for option in command.plain_options()}
    rows = []
    for path in command.common:
        section, _, name = path.rpartition(".")
        if path in options:
            rows.append(line(options[path]))
        else:
            found = unimported(
                command.components[section].known[command.defaults[section]].module, name
            )
            rows.append((f"{SHORT[path]} {LETTERS[found.annotation]}", found.text))
    return columns(rows)


def unimported(module: str, name: str) -> Described:
    """A field as the source of a component tells it, or that of a neighbour which it inherits."""
    own = PROJECT.joinpath(*module.split(".")).with_suffix(".py")
    files = [own, *sorted(own.parent.glob("*.py"))]
    classes = (fields for file in files for fields in described(str(file)).values())
    return next(fields[name] for fields in classes if name in fields)


def component(command: Command, section: str, name: str) -> str:
    options = options_of(section, command.components[section][name].config)
    return titled(f"options of {section} {name}", table(options))


def plain(command: Command, section: str) -> str:
    """The options of a section that are not among the common ones."""
    options = options_of(section, command.plain_sections()[section])
    title = f"further options of section {section}" if section else "further options"
    told = (*command.common, *([] if command.components else [command.positional]))
    return titled(title, table([option for option in options if option.path not in told]))


def table(options: Sequence[Option]) -> str:
    return columns([line(option) for option in options])


def line(option: Option) -> tuple[str, str]:
    """The flag with what it takes, and its help with the default."""
    flag = SHORT.get(option.path, option.flag)
    value = (
        "" if option.scalar is bool else " " + LETTERS[option.scalar.__name__] + "..." * option.many
    )
    default = option.default
    shown = default not in (None, "", False, []) and not isinstance(default, type(MISSING))
    default = "true" if default is True else default
    default = ",".join(map(str, default)) if option.many else default
    return flag + value, option.help + (f" (default: {default})" if shown else "")


def titled(title: str, text: str) -> str:
    return f"{title}:\n{text}" if text else ""


def closing(command: Command) -> str:
    if not command.components:
        return ""
    return paragraph(
        f"Components have options of their own: {command.name} --arch NAME --task NAME --help "
        "shows them, and --user-dir DIR adds yours. The last part of an option is enough where it "
        "names one option only: --train-subset for --data.train-subset. What is on by default is "
        "switched off with --option false. A --config file holds the "
        "same options by section; --print-config writes one."
    )

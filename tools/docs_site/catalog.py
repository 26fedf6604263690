"""Every option of every command and component, as the config classes declare them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from toolkit.cli.toolkit import COMMANDS
from toolkit.common.registry import REGISTRIES
from toolkit.config.command import Command
from toolkit.config.command_group import CommandGroup
from toolkit.config.names import RESERVED_NAMES
from toolkit.config.options import Option, list_options, to_flag

SHORT_NAMES = {path: name for name, path in RESERVED_NAMES.items()}
SINGLE = ""
"""Owner of an option that a command has in all its modes."""


@dataclass
class CatalogEntry:
    """An option, and the components or modes that have it with this type and help."""

    key: str
    """Path of the option in a run, such as training.update_freq and arch.layers; that of another
    command follows the command's word, as in generate.beam."""
    option: Option
    defaults: dict[str, Any] = field(default_factory=dict)
    """Component, its sizes included, or mode of a command -> default."""

    @property
    def flag(self) -> str:
        """The shortest flag that is always understood."""
        return to_flag(SHORT_NAMES.get(self.option.path, self.option.path))

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]


@cache
def command_modes() -> dict[str, dict[str, Command]]:
    """Word of each command -> its modes; a command without modes has one, SINGLE."""
    modules = {word: import_module(f"toolkit.cli.{word}") for word in COMMANDS}
    return {word: modes(module.COMMAND) for word, module in modules.items()}


def modes(command: Command | CommandGroup) -> dict[str, Command]:
    return dict(command.commands) if isinstance(command, CommandGroup) else {SINGLE: command}


@cache
def list_entries() -> list[CatalogEntry]:
    """All options: those of a run, of its components, of data formats, of the other commands."""
    found: dict[tuple[object, ...], CatalogEntry] = {}
    for key, owner, option in declared_options():
        same = (key, option.help, option.type, option.advanced)
        found.setdefault(same, CatalogEntry(key, option)).defaults[owner] = option.default
    return list(found.values())


def declared_options() -> Iterator[tuple[str, str, Option]]:
    """Key, owner and declaration of each option of each component and each mode of a command."""
    commands = command_modes()
    for option in commands["train"][SINGLE].fixed_options():
        yield option.path, SINGLE, option
    for section, registry in REGISTRIES.items():
        for name in registry.builtins:
            for option in list_options(section, registry[name].config):
                yield option.path, name, option
    for word in [word for word in COMMANDS if word != "train"]:
        for mode, command in commands[word].items():
            for option in command.fixed_options():
                yield f"{word}.{option.path}", mode, option


def find_key(name: str) -> str:
    """The key of an option from its path, its reserved or its last name; a run's come first."""
    keys = dict.fromkeys(entry.key for entry in list_entries())
    path = RESERVED_NAMES.get(name, name)
    if path in keys or path.endswith(".name"):
        return path
    return next(key for key in keys if key.rpartition(".")[2] == name)

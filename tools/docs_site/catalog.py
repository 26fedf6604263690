"""Every option of every command and component, as the config classes declare them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from toolkit.cli import inspect, validate
from toolkit.cli.toolkit import COMMANDS
from toolkit.common.registry import REGISTRIES, Registry
from toolkit.config.command import DEFAULT_COMPONENTS, Command, CommandGroup
from toolkit.config.declared import Option, OptionType, list_options, to_flag
from toolkit.config.names import RESERVED_NAMES

SHORT_NAMES = {path: name for name, path in RESERVED_NAMES.items()}
SINGLE = ""
"""Owner of an option that a command has in all its modes."""
EVERY = "toolkit"
"""Section of the options that every command has."""
WITH_ARCH = "--arch"
"""Mode of toolkit-inspect in which options describe a run."""
WITH_PAIRS = "--task completions"
"""Mode of toolkit-validate that reads sentence pairs."""


@dataclass
class CatalogEntry:
    """An option, and the components or modes that have it with this type and help."""

    key: str
    """Path of the option in a run, such as training.update_freq and arch.layers; that of another
    command follows the command's word, as in generate.beam."""
    option: Option
    defaults: dict[str, Any] = field(default_factory=dict)
    """Component or mode of a command -> default."""

    @property
    def flag(self) -> str:
        """The shortest flag that is always understood."""
        path = self.option.path.removesuffix(".name")
        return to_flag(SHORT_NAMES.get(path, path))

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]


@cache
def commands() -> dict[str, Command | CommandGroup]:
    """Word of each command -> the command, or the group of its modes."""
    return {word: import_module(f"toolkit.cli.{word}").COMMAND for word in COMMANDS}


@cache
def command_modes() -> dict[str, dict[str, Command]]:
    """Word of each command -> its modes; a command without modes has one, SINGLE."""
    found = {
        word: dict(it.commands) if isinstance(it, CommandGroup) else {SINGLE: it}
        for word, it in commands().items()
    }
    found["inspect"][WITH_ARCH] = inspect.COUNT
    found["validate"][WITH_PAIRS] = validate.COMPLETIONS
    found["validate"]["--task reading_times"] = validate.READING_TIMES
    found["validate"]["--task age_of_acquisition"] = validate.ACQUISITION
    return found


@cache
def list_entries() -> list[CatalogEntry]:
    """All options: those of a run, of its components, of data formats, of the other commands."""
    found: dict[tuple[object, ...], CatalogEntry] = {}
    for key, owner, option in declared_options():
        same = (key, option.help, option.type, option.advanced)
        found.setdefault(same, CatalogEntry(key, option)).defaults[owner] = option.default
    return list(found.values())


def entries_of(section: str) -> list[CatalogEntry]:
    """The options of a section of a run, or of another command."""
    return [entry for entry in list_entries() if entry.section == section]


def declared_options() -> Iterator[tuple[str, str, Option]]:
    """Key, owner and declaration of each option of each component and each mode of a command."""
    modes = command_modes()
    run = modes["train"][SINGLE]
    for option in run.fixed_options():
        yield option.path, SINGLE, option
    for section, registry in REGISTRIES.items():
        yield f"{section}.name", SINGLE, component_option(section, registry)
        for name in registry.builtins:
            for option in list_options(section, registry[name].config):
                yield option.path, name, option
    for word in COMMANDS:
        for mode, command in modes[word].items() if word != "train" else ():
            for option in own_options(command):
                yield f"{word}.{option.path.removeprefix(f'{word}.')}", mode, option
    for option in run.command_line_options():
        yield f"{EVERY}.{option.path}", SINGLE, option


def component_option(section: str, registry: Registry) -> Option:
    """The option that names a component."""
    default = {**DEFAULT_COMPONENTS, "format": "text", "criterion": "that of the task"}
    help_text = (
        f"Name of the {registry.kind}, which has options of the form {to_flag(section)}.OPTION."
    )
    return Option(f"{section}.name", OptionType(str), default.get(section, ""), help_text)


def own_options(command: Command) -> list[Option]:
    """The options of a command, without those of a run that it describes."""
    sections = command.sections if command.positional == "data.dirs" else command.fixed_sections()
    return [o for section, config in sections.items() for o in list_options(section, config)]


def find_key(name: str) -> str:
    """The key of an option from its path, its reserved or its last name; a run's come first."""
    keys = dict.fromkeys(entry.key for entry in list_entries())
    path = RESERVED_NAMES.get(name, name)
    return path if path in keys else next(k for k in keys if k.rpartition(".")[2] == name)

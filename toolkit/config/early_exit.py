"""Flags that print something and exit: --help, --list, --version, --print-config."""

from __future__ import annotations

from collections.abc import Sequence

import toolkit
from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.plugins import Plugin
from toolkit.common.registry import CALLBACKS
from toolkit.config.columns import format_columns
from toolkit.config.command import Command
from toolkit.config.flags import scan_flags
from toolkit.config.help import help_text
from toolkit.config.load import bootstrap_options, get_value, resolve
from toolkit.config.recipes import list_recipes
from toolkit.config.run import RunConfig
from toolkit.config.sections.callbacks import SECTION
from toolkit.config.values import FALSE_WORDS, OptionValues

LISTS = {
    "archs": "arch",
    "tasks": "task",
    "criteria": "criterion",
    "optimizers": "optimizer",
    "lr_schedulers": "lr_scheduler",
    "formats": "format",
    "callbacks": "callback",
}
RECIPES = "recipes"


def handle_info_flags(argv: Sequence[str], command: Command) -> str | None:
    """The text to print; None if there is no such flag and the command runs."""
    values = scan_flags(argv, bootstrap_options(command))
    if is_requested(values, "version"):
        return f"{command.name} {toolkit.__version__}"
    if is_requested(values, "help") or is_requested(values, "help_all"):
        names = {section: values.get(f"{section}.name") for section in command.components}
        components = {section: str(name.value) for section, name in names.items() if name}
        loaded = load_plugin_folders(values)
        return help_text(command, components, loaded, advanced=is_requested(values, "help_all"))
    if "list" in values:
        load_plugin_folders(values)
        plugins.load_installed()
        return list_components(command, str(values["list"].value))
    if is_requested(values, "print_config"):
        from toolkit.config.serialize import print_config  # PyYAML is slow to import

        return print_config(resolve(argv, command))
    return None


def is_requested(values: OptionValues, name: str) -> bool:
    """Whether a flag without a value is given, and not as false."""
    return name in values and values[name].value.lower() not in FALSE_WORDS


def load_plugin_folders(values: OptionValues) -> list[Plugin]:
    """Load the plugin folders that `--user-dir` names."""
    return [plugins.load_folder(folder) for folder in get_value(values, "user_dir", [])]


def list_components(command: Command, kind: str) -> str:
    """Name and summary of every component of one kind, or of the recipes."""
    is_run = command.config is RunConfig
    if is_run and kind == RECIPES:
        return format_columns(list_recipes().items(), indent=0)
    section = LISTS.get(kind.replace("-", "_"), "")
    registries = {**command.components, **({SECTION: CALLBACKS} if is_run else {})}
    if section not in registries:
        known = [name for name, section in LISTS.items() if section in registries]
        known += [RECIPES] * is_run
        raise ToolkitError(f"--list must be one of {', '.join(known)}, but is {kind!r}.")
    registry = registries[section]
    if not registry.names():
        return f"no {kind}; --user-dir adds yours"
    return format_columns([(name, registry.summary(name)) for name in registry.names()], indent=0)

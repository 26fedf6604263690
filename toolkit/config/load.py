"""From the command line to frozen configs.

Defaults < named component < checkpoint to resume < YAML files < flags.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS, TASKS
from toolkit.config import checkpoint_defaults, input_paths, names
from toolkit.config.checkpoint_defaults import START_OPTIONS
from toolkit.config.command import RUN, Command
from toolkit.config.commands.owners import find_owners
from toolkit.config.declared import OptionType
from toolkit.config.flags import list_flags, parse_flags, scan_flags
from toolkit.config.options import Option, index_by_path, list_options
from toolkit.config.run import ComponentConfig, RunConfig
from toolkit.config.sections import callbacks
from toolkit.config.values import (
    OptionValue,
    OptionValues,
    Overrides,
    build_config,
    check_plain,
    split_values,
)


class Resolved(NamedTuple):
    """Every option of the selected components and sections, and the values set so far."""

    values: OptionValues
    defaults: dict[str, Any]
    """Section -> config class, or a component's named instance."""
    options: list[Option]

    def build_configs(self) -> dict[str, Any]:
        """Section -> its complete, frozen config; a component's with its name."""
        built: dict[str, Any] = {}
        for section, default in self.defaults.items():
            options = options_in(section, self.options)
            if default is Overrides:
                built[section] = Overrides(
                    {
                        option.name: split_values(option, *self.values[option.path])
                        for option in options
                    }
                )
            elif section:
                config = build_config(default, options, self.values)
                name = self.values.get(f"{section}.name")
                built[section] = ComponentConfig(str(name.value), config) if name else config
        if "" in self.defaults:  # its components are fields of its config
            options = options_in("", self.options)
            config = build_config(self.defaults[""], options, self.values, **built)
            return {**built, "": config}
        return built


class LoadedConfig(NamedTuple):
    """The config of a command and its other sections."""

    config: Any
    """RunConfig, or the config of a command without sections."""
    extra: dict[str, Any]
    """Section other than those of a run -> its config."""


def load(argv: Sequence[str], command: Command) -> LoadedConfig:
    """The configs of a command line and the files it names."""
    built = resolve(argv, command).build_configs()
    if command.config is RunConfig:
        return LoadedConfig(to_run_config(built), {name: built[name] for name in command.sections})
    return LoadedConfig(built[""], {})


def to_run_config(configs: Mapping[str, Any]) -> RunConfig:
    """The run with these configs by section."""
    sections = {f.name: configs[f.name] for f in fields(RunConfig) if f.name in configs}
    return RunConfig(**sections, callbacks=callbacks.by_name(configs))


def compose(options: Mapping[str, object], command: Command = RUN) -> RunConfig:
    """A run from {"arch": "composite_bert_tiny", "arch.dropout": 0.0, "task": "mlm", ...}.

    Keys are full paths, reserved short names or unambiguous last parts, as on the command line.
    """
    return to_run_config(resolve_mapping(options, command).build_configs())


def compose_config(options: Mapping[str, object], command: Command) -> Any:
    """The config of a command without sections, such as PREPROCESS, from such a mapping."""
    return resolve_mapping(options, command).build_configs()[""]


def resolve_mapping(options: Mapping[str, object], command: Command) -> Resolved:
    """Resolve options given in Python, by short name or path."""
    values = {key: OptionValue(value, names.PYTHON) for key, value in options.items()}
    named = {f"{key}.name": values[key] for key in values.keys() & command.components.keys()}
    early = {
        path: value
        for path in (*command.implied, *START_OPTIONS, callbacks.SELECTION.path)
        for key, value in values.items()
        if key in (path, path.rpartition(".")[2])
    }
    named |= {path: value for path, value in early.items() if path == callbacks.SELECTION.path}
    named = implied_components(early, command) | named
    saved, start = checkpoint_values(early | named, command)
    resolved = resolve_components(start | named, command)
    known = index_by_path(resolved.options)
    given = {
        names.find_option(key, known, command, origin=names.PYTHON).path: value
        for key, value in values.items()
        if key not in command.components
    }
    drop_alternatives(resolved, saved, named | given)
    return resolved._replace(values=resolved.values | given)


def checkpoint_values(given: OptionValues, command: Command) -> tuple[OptionValues, OptionValues]:
    """The values of the run to resume, and the same with the architecture to fine-tune."""
    find = command.find_saved_run
    saved = checkpoint_defaults.saved_values(given, find) if find else {}
    saved = callbacks.keep_selected(saved, given)
    return saved, checkpoint_defaults.default_architecture({**saved, **given}) | saved


def drop_alternatives(resolved: Resolved, saved: OptionValues, given: OptionValues) -> None:
    """Leave out saved values of options that are alternatives of a given one."""
    for path in saved.keys() & checkpoint_defaults.conflicting_options(given):
        del resolved.values[path]


def options_in(section: str, options: Iterable[Option]) -> list[Option]:
    """The options that are fields of a section's config: all but the component's name."""
    return [o for o in options if o.section == section and o.path != f"{section}.name"]


def resolve(argv: Sequence[str], command: Command) -> Resolved:
    """Parse the words twice: for files, plugins and components, and then for their options."""
    input_paths.check_leading_words(argv, command)
    first = scan_flags(argv, bootstrap_options(command))
    values: OptionValues = {}
    for file in get_value(first, "config", []):
        from toolkit.config.sources import flatten_sections, read_yaml  # PyYAML is slow to import

        values |= flatten_sections(read_yaml(file), command, file)
    for folder in get_value(first, "user_dir", []):
        plugins.load_folder(folder)
    weakest = implied_components(values | first, command) | sweep_defaults(argv, values, command)
    names_of_flags = {
        path: value
        for path, value in first.items()
        if path.endswith(".name") or path == callbacks.SELECTION.path
    }
    named = weakest | values | names_of_flags
    saved, start = checkpoint_values(named | first, command)
    if find_missing_component(start | named, command):
        check_flags_exist(argv, start | named, command)
    resolved = resolve_components(start | named, command)
    options = index_by_path([*command.command_line_options(), *resolved.options])
    flags = parse_flags(
        argv,
        lambda name: override_option(name, command) or names.find_option(name, options, command),
        options.get(command.positional),
        lambda word: input_paths.unexpected_word_error(word, command),
    )
    for option in command.command_line_options():
        flags.pop(option.path, None)
    drop_alternatives(resolved, saved, named | flags)
    given = filter(None, (override_option(path, command) for path in flags))
    overrides = [option for option in given if option.path not in options]
    return resolved._replace(values=resolved.values | flags, options=resolved.options + overrides)


def check_flags_exist(argv: Sequence[str], values: OptionValues, command: Command) -> None:
    """Raise if a flag is no option, whichever the missing components are."""
    options = [*command.command_line_options(), *command.fixed_options()]
    defaults = callbacks.callback_defaults(values)
    for section, registry in command.components.items():
        options.append(name_option(section, command))
        if name := get_value(values, f"{section}.name", command.defaults.get(section)):
            defaults[section] = registry[str(name)].config
    options += [o for section, config in defaults.items() for o in list_options(section, config)]
    for name in list_flags(argv):
        if not find_owners(names.RESERVED_NAMES.get(name, name), command.components):
            names.find_option(name, index_by_path(options), command)


def override_option(name: str, command: Command) -> Option | None:
    """The option of a checkpoint's run that the command overrides; None for another name."""
    section, _, last = names.RESERVED_NAMES.get(name, name).rpartition(".")
    if not command.overridden or section != command.overridden or last == "name":
        return None
    return Option(f"{section}.{last}", OptionType(str, is_list=True), None, "")


def implied_components(values: OptionValues, command: Command) -> OptionValues:
    """Components selected by one of their options: --source-lang implies --format parallel."""
    return {
        f"{path.partition('.')[0]}.name": OptionValue(component, values[path].origin)
        for path, component in command.implied.items()
        if path in values
    }


def sweep_defaults(argv: Sequence[str], values: OptionValues, command: Command) -> OptionValues:
    """Components that only a sweep names: the first of its values."""
    if "sweep" not in command.sections:
        return {}
    from toolkit.config.commands.train import first_values

    grid = index_by_path(o for o in command.fixed_options() if o.path == "sweep.grid")
    flags = scan_flags(argv, {**grid, "grid": grid["sweep.grid"]})
    items = get_value({**values, **flags}, "sweep.grid", [])
    items = items if isinstance(items, list) else [items]  # a file may give one as text
    first = first_values(item for item in items if isinstance(item, str))
    return {
        f"{section}.name": OptionValue(first[key], "--grid")
        for section in COMPONENTS
        for key in (section, f"{section}.name")
        if key in first
    }


def bootstrap_options(command: Command) -> dict[str, Option]:
    """Flag -> option, for the options on which the others depend."""
    components = [name_option(section, command) for section in command.components]
    implied = [Option(path, TEXT, None, "") for path in command.implied]
    paths = (*START_OPTIONS, callbacks.SELECTION.path)
    start = [option for option in command.fixed_options() if option.path in paths]
    options = index_by_path([*command.command_line_options(), *components, *implied, *start])
    options |= {option.name: option for option in [*implied, *start]}
    return options | {section: options[f"{section}.name"] for section in command.components}


def resolve_components(values: OptionValues, command: Command) -> Resolved:
    """Complete the names of the components, and check that every key is an option."""
    values = values | default_components(values, command)
    defaults: dict[str, Any] = dict(command.fixed_sections())
    options = command.fixed_options()
    for section, registry in command.components.items():
        defaults[section] = registry[str(values[f"{section}.name"].value)].config
        options += [name_option(section, command), *list_options(section, defaults[section])]
    if command.overridden:
        defaults[command.overridden] = Overrides
        options += filter(None, (override_option(path, command) for path in values))
    for section, default in callbacks.callback_defaults(values).items():
        defaults[section] = default
        options += list_options(section, default)
    known = index_by_path(options)
    for path, (_, origin) in values.items():
        if path not in known:
            raise names.unknown_option_error(path, known, command, origin)
    return Resolved(values, defaults, options)


def find_missing_component(values: OptionValues, command: Command) -> str | None:
    """The first section that must name a component, which are architecture and task."""
    optional = {"criterion", *command.defaults}
    given = optional | {path.removesuffix(".name") for path in values if path.endswith(".name")}
    return next((section for section in command.components if section not in given), None)


def default_components(values: OptionValues, command: Command) -> OptionValues:
    """The components that are not named; those without a default are required."""
    if missing := find_missing_component(values, command):
        known = ", ".join(command.components[missing].folded_names())
        raise ToolkitError(f"--{missing} is required: one of {known}. See --help.")
    defaults: OptionValues = {}
    for section in command.components:
        if f"{section}.name" in values:
            check_plain(f"{section}.name", values[f"{section}.name"].value)
        elif section == "criterion":
            task = str((values | defaults)["task.name"].value)
            defaults["criterion.name"] = OptionValue(TASKS[task].factory.criterion, f"task {task}")
        else:
            defaults[f"{section}.name"] = OptionValue(command.defaults[section], "default")
    return defaults


TEXT = OptionType(str)


def name_option(section: str, command: Command) -> Option:
    """The option that selects the component of a section."""
    text = f"Name of the {command.components[section].kind}."
    return Option(f"{section}.name", TEXT, "", text, separator=None)


def get_value(values: OptionValues, path: str, default: Any) -> Any:
    """The value given for a path, or the default."""
    return values[path].value if path in values else default

"""From the command line to frozen configs.

Defaults < named component < checkpoint to resume < YAML files < flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pkgutil import resolve_name
from typing import Any, NamedTuple

from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CALLBACKS, COMPONENTS, TASKS
from toolkit.config import names, translate
from toolkit.config.command import RUN, Command, missing_dashes_error
from toolkit.config.declared import Option, OptionType, index_by_path, list_options, to_flag
from toolkit.config.schedules import ValueSchedule, parse_schedule
from toolkit.config.sections import ComponentConfig, RunConfig
from toolkit.config.values import (
    ALTERNATIVES,
    CALLBACK,
    SELECTED_CALLBACKS,
    START_OPTIONS,
    OptionValue,
    OptionValues,
    Overrides,
    Words,
    build_config,
    callback_section,
    check_plain,
    default_architecture,
    default_save_dir,
    flatten_sections,
    get_value,
    keep_callbacks,
    plain_value,
    read_flags,
    read_words,
    saved_values,
    selected_callbacks,
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
        values, schedules = dict(self.values), dict[str, ValueSchedule]()
        for option in self.options if "training" in self.defaults else ():
            given = values.get(option.path)
            if given and (schedule := parse_schedule(option, given.value)):
                schedules[option.path] = schedule
                values[option.path] = given._replace(value=schedule.values[-1])
        for section, default in self.defaults.items():
            options = self.options_in(section)
            if default is Overrides:
                lists = {o.name: plain_value(o, values[o.path].value) for o in options}
                if empty := [option.path for option in options if not lists[option.name]]:
                    origin = values[empty[0]].origin
                    raise ToolkitError(f"{empty[0]} must have a value, but is empty ({origin}).")
                built[section] = Overrides(lists)
            elif section:
                config = build_config(default, options, values)
                name = values.get(f"{section}.name")
                built[section] = ComponentConfig(str(name.value), config) if name else config
        if "" in self.defaults:  # its components are fields of its config
            options = self.options_in("")
            built[""] = build_config(self.defaults[""], options, values, **built)
        if "training" in self.defaults:
            built["schedules"] = schedules
        return built

    def options_in(self, section: str) -> list[Option]:
        """The options that are fields of a section's config: all but the component's name."""
        return [o for o in self.options if o.section == section and o.path != f"{section}.name"]


class LoadedConfig(NamedTuple):
    """The config of a command and its other sections."""

    config: Any
    """RunConfig, or the config of a command without sections."""
    extra: dict[str, Any]
    """Section other than those of a run -> its config."""
    argv: Sequence[str]
    """The command line."""


def load(argv: Sequence[str], command: Command) -> LoadedConfig:
    """The configs of a command line and the files it names."""
    built = resolve(argv, command).build_configs()
    if command.config is RunConfig:
        extra = {name: built[name] for name in command.sections}
        return LoadedConfig(to_run_config(built), extra, argv)
    return LoadedConfig(built[""], {}, argv)


def to_run_config(configs: Mapping[str, Any]) -> RunConfig:
    """The run with these configs by section."""
    sections = {f.name: configs[f.name] for f in fields(RunConfig) if f.name in configs}
    prefix = f"{CALLBACK}."
    found = {s.removeprefix(prefix): c for s, c in configs.items() if s.startswith(prefix)}
    return RunConfig(**sections, callbacks=found)


def compose(options: Mapping[str, object], command: Command = RUN) -> RunConfig:
    """A run from {"arch": "composite_bert_tiny", "arch.dropout": 0.0, "task": "mlm", ...}.

    Keys are full paths, reserved short names or unambiguous last parts, as on the command line.
    """
    return to_run_config(resolve_mapping(options, command).build_configs())


def resolve_mapping(options: Mapping[str, object], command: Command) -> Resolved:
    """Resolve options given in Python, by short name or path."""
    values = {key: OptionValue(value, names.PYTHON) for key, value in options.items()}
    known = early_options(command)
    early = {known[key].path: value for key, value in values.items() if key in known}

    def read(options: Mapping[str, Option]) -> OptionValues:
        found, errors = dict[str, OptionValue](), list[str]()
        for key, value in values.items():
            try:
                found[names.find_option(key, options, command, origin=names.PYTHON).path] = value
            except ToolkitError as error:
                errors.append(str(error))
        if errors:
            raise ToolkitError(" ".join(errors))
        return found

    return resolve_values(early, {}, read, command)


def resolve(argv: Sequence[str], command: Command) -> Resolved:
    """Resolve the words of a command line; all of its unknown options are one error."""
    words = read_words(argv)
    early = early_values(words, command)
    files = read_config_files(early, command)
    try:
        return resolve_words(words, early, files, command)
    except ToolkitError as error:

        def reread(line: Sequence[str]) -> Resolved:
            words = read_words(line)
            return resolve_words(words, early_values(words, command), files, command)

        named = implied_components(files | early, command) | files | early
        chosen = {
            path.removesuffix(".name"): str(it.value)
            for path, it in named.items()
            if path.endswith(".name")
        }
        raise translate.explain(words, command, chosen, error, reread) from None


def resolve_words(
    words: Words, early: OptionValues, files: OptionValues, command: Command
) -> Resolved:
    """Resolve the words of a command line: files and components first, and then their options."""
    for_all = index_by_path(command.command_line_options())

    def read(options: Mapping[str, Option]) -> OptionValues:
        known = {**for_all, **options}

        def find(name: str) -> Option:
            return names.override_option(name, command) or names.find_option(name, known, command)

        flags, rest = read_flags(words, find)
        if rest:
            flags |= positional_value(rest, known.get(command.positional), flags, command)
        return {path: value for path, value in flags.items() if path not in for_all}

    return resolve_values(early, files, read, command)


def vary(base: Resolved, texts: Mapping[str, str], command: Command) -> RunConfig:
    """The run with other values of some options, by path or short name, as in a sweep.

    The values of a file of options, `config`, precede the others.
    """
    given = {key: OptionValue(text, to_flag(key)) for key, text in texts.items()}
    file = given.pop("config", None)
    named = {"config": file._replace(value=[file.value])} if file else {}
    files = read_config_files(named, command)
    known, values = early_options(command), dict(base.values)
    early = files | {known[key].path: value for key, value in given.items() if key in known}
    if (
        "task.name" in early
        and values["criterion.name"].origin == f"task {values['task.name'].value}"
    ):
        del values["criterion.name"]
    resolved = resolve_components(values | early, command)
    options = index_by_path(resolved.options)
    found = {names.find_option(key, options, command).path: it for key, it in given.items()}
    return to_run_config(resolved._replace(values=resolved.values | found).build_configs())


def positional_value(
    words: list[str], positional: Option | None, flags: OptionValues, command: Command
) -> OptionValues:
    """The value of the option that words without a flag set."""
    if positional is None:
        raise missing_dashes_error(words[0])
    if positional.path in flags:
        raise ToolkitError(
            f"{positional.flag} cannot be combined with words without a flag, which set the same "
            f"option."
        )
    if not positional.type.is_list and len(words) > 1:
        raise missing_dashes_error(words[1])
    return {
        positional.path: OptionValue(words if positional.type.is_list else words[0], "argument")
    }


def resolve_values(
    early: OptionValues,
    files: OptionValues,
    read: Callable[[Mapping[str, Option]], OptionValues],
    command: Command,
) -> Resolved:
    """Join the sources of values, the weakest first, once the components are known.

    `early` are the values on which the options depend, and `read` gives all values, without those
    of files, once the options are known.
    """
    implied = implied_components(files | early, command)
    chosen = {p: v for p, v in early.items() if p.endswith(".name") or p == SELECTED_CALLBACKS.path}
    named = implied | sweep_components(files | early, command) | files | chosen
    saved: OptionValues = {}
    if command.config is RunConfig:
        named |= default_save_dir(default_architecture(named | early) | named | early)
    if find := command.find_saved_run:
        find = resolve_name(find) if isinstance(find, str) else find
        saved = saved_values(named | early, find)
        saved = keep_callbacks(saved, selected_callbacks(saved | named | early))
    start = default_architecture({**saved, **named, **early}) | saved
    resolved = resolve_components(start | named, command)
    given = read(index_by_path(resolved.options))
    chosen_now = {*named, *given}
    for path in saved.keys() - chosen_now:
        if any(path in group and chosen_now & {*group} for group in ALTERNATIVES):
            del resolved.values[path]
    overrides = [o for path in given if (o := names.override_option(path, command))]
    options = [*resolved.options, *(o for o in overrides if o not in resolved.options)]
    return resolved._replace(values=resolved.values | given, options=options)


def implied_components(values: OptionValues, command: Command) -> OptionValues:
    """Components that options with a value imply, as --source-lang does parallel text."""
    return {
        f"{path.partition('.')[0]}.name": OptionValue(component, values[path].origin)
        for path, component in command.implied.items()
        if path in values
    }


def early_options(command: Command, *more: str) -> dict[str, Option]:
    """Flag -> option, for the options on which the others depend."""
    paths = {*START_OPTIONS, SELECTED_CALLBACKS.path, "sweep.grid", *more}
    start = [option for option in command.fixed_options() if option.path in paths]
    start += [Option(path, TEXT, None, "") for path in command.implied]
    components = {section: name_option(section, command) for section in command.components}
    options = index_by_path([*command.command_line_options(), *components.values(), *start])
    return options | {option.name: option for option in start} | components


def early_values(words: Words, command: Command, *more: str) -> OptionValues:
    """The values of the options on which the others depend, and of these paths."""
    return read_flags(words, early_options(command, *more).get)[0]


def read_config_files(early: OptionValues, command: Command) -> OptionValues:
    """The values of the configuration files; loads the plugin folders too."""
    values: OptionValues = {}
    for file in get_value(early, "config", []):
        from toolkit.config.yaml_files import read_yaml  # PyYAML is slow to import

        values |= flatten_sections(read_yaml(file), command, file)
    for folder in get_value(early, "user_dir", []):
        plugins.load_folder(folder)
    return values


def sweep_components(values: OptionValues, command: Command) -> OptionValues:
    """Components that only a sweep names: the first of its values."""
    if "sweep.grid" not in values or "sweep" not in command.sections:
        return {}
    from toolkit.config.commands.train import parse_grid_item

    items = values["sweep.grid"].value
    items = items if isinstance(items, list) else [items]  # a file may give one as text
    parsed = [parse_grid_item(item) for item in items if isinstance(item, str)]
    first = {key: values[0] for key, _, values in parsed if values[0]}
    return {
        f"{section}.name": OptionValue(first[key], "--grid")
        for section in COMPONENTS
        for key in (section, f"{section}.name")
        if key in first
    }


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
        options += filter(None, (names.override_option(path, command) for path in values))
    for name in selected_callbacks(values):
        section = callback_section(name)
        defaults[section] = CALLBACKS[name].config
        options += list_options(section, defaults[section])
    known = index_by_path(options)
    unknown = [
        str(names.unknown_option_error(path, known, command, origin))
        for path, (_, origin) in values.items()
        if path not in known
    ]
    if unknown:
        raise ToolkitError(" ".join(unknown))
    return Resolved(values, defaults, options)


def default_components(values: OptionValues, command: Command) -> OptionValues:
    """The components that are not named; architecture and task are required."""
    defaults: OptionValues = {}
    for section, registry in command.components.items():
        path = f"{section}.name"
        if path in values:
            check_plain(path, values[path].value)
        elif section in command.defaults:
            defaults[path] = OptionValue(command.defaults[section], "default")
        elif section != "criterion":
            known = ", ".join(registry.folded_names())
            more = "; or --finetune-from, a checkpoint with one" if section == "arch" else ""
            raise ToolkitError(f"--{section} is required: one of {known}{more}. See --help.")
    if "criterion" in command.components and "criterion.name" not in values:
        task = (values | defaults)["task.name"]
        criterion = TASKS[str(task.value)].factory.criterion
        defaults["criterion.name"] = OptionValue(criterion, f"task {task.value}")
    return defaults


TEXT = OptionType(str)


def name_option(section: str, command: Command) -> Option:
    """The option that selects the component of a section."""
    text = f"Name of the {command.components[section].kind}."
    return Option(f"{section}.name", TEXT, "", text, separator=None)

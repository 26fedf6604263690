"""From the command line to frozen configs: defaults < named component < YAML files < flags."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS, TASKS
from toolkit.config import finetune_defaults, names
from toolkit.config.command import Command
from toolkit.config.commands.train import first_values
from toolkit.config.flags import parse_flags, scan_flags
from toolkit.config.options import Option, list_options
from toolkit.config.run import ComponentConfig, RunConfig
from toolkit.config.sources import (
    OptionValue,
    OptionValues,
    check_plain,
    flatten_sections,
    parse_value,
    read_yaml,
)


def build_config(defaults: Any, options: Sequence[Option], values: OptionValues) -> Any:
    """The config class or instance, with the values given for its options put in its place."""
    structured = OmegaConf.structured(defaults)
    found = {o.name: parse_value(o, values[o.path].value) for o in options if o.path in values}
    try:
        merged = OmegaConf.merge(structured, found)
    except (OmegaConfBaseException, ValueError) as error:
        raise describe_type_error(structured, options, values) from error
    return OmegaConf.to_object(merged)


def describe_type_error(
    structured: Any, options: Sequence[Option], values: OptionValues
) -> ToolkitError:
    """The first value that does not fit alone, in words."""
    for option in options:
        if option.path in values:
            value, origin = values[option.path]
            try:
                OmegaConf.merge(structured, {option.name: parse_value(option, value)})
            except (OmegaConfBaseException, ValueError):
                return ToolkitError(
                    f"{option.path} must be {option.rule}, but is {reprlib.repr(value)} ({origin})."
                )
    raise AssertionError("each value fits alone, so all fit together")


class Resolved(NamedTuple):
    """Every option that the chosen components and sections have, and the values given for them."""

    values: OptionValues
    defaults: dict[str, Any]
    """Section -> config class, or a component's named instance."""
    options: list[Option]

    def build_configs(self) -> dict[str, Any]:
        """Section -> its complete, frozen config."""
        from toolkit.config.load import build_config  # OmegaConf, which a bare --help does without

        return {
            section: build_config(default, options_in(section, self.options), self.values)
            for section, default in self.defaults.items()
        }


class LoadedConfig(NamedTuple):
    """What a command acts on: its config, and the sections beside the run's own."""

    config: Any
    extra: dict[str, Any]


def load(argv: Sequence[str], command: Command) -> LoadedConfig:
    """The configs that a command line, and the files it names, ask for."""
    resolved = resolve(argv, command)
    built = resolved.build_configs()
    if command.config is not RunConfig:
        return LoadedConfig(built[""], {})
    extra = {section: built.pop(section) for section in command.sections}
    return LoadedConfig(to_run_config(resolved, built), extra)


def compose(options: Mapping[str, Any]) -> RunConfig:
    """A run from {"arch": "composite_bert_tiny", "arch.dropout": 0.0, "task": "mlm", ...}.

    Keys are full paths, reserved short names or unambiguous last parts, as on the command line.
    """
    command = Command(name="compose", summary="", example="", config=RunConfig)
    named = {key: value for key, value in options.items() if key in COMPONENTS}
    values = {f"{section}.name": OptionValue(name, "compose") for section, name in named.items()}
    settled = resolve_components(values, command)
    for key, value in options.items():
        if key not in COMPONENTS:
            path = names.find_option(key, index_by_path(settled.options), origin="compose").path
            settled.values[path] = OptionValue(value, "compose")
    return to_run_config(settled, settled.build_configs())


def options_in(section: str, options: Iterable[Option]) -> list[Option]:
    """The options that are fields of a section's config, which the component's name is not."""
    prefix = f"{section}." if section else ""
    return [o for o in options if o.path == prefix + o.name and o.path != f"{section}.name"]


def to_run_config(resolved: Resolved, built: Mapping[str, Any]) -> RunConfig:
    chosen = {
        c: ComponentConfig(str(resolved.values[f"{c}.name"].value), built[c]) for c in COMPONENTS
    }
    return RunConfig(**{**built, **chosen})


def resolve(argv: Sequence[str], command: Command) -> Resolved:
    """Read the words twice: first for files, plugins and components, then for their options."""
    first = scan_flags(argv, bootstrap_options(command))
    values: OptionValues = {}
    for file in get_value(first, "config", []):
        values |= flatten_sections(read_yaml(file), command, file)
    for folder in get_value(first, "user_dir", []):
        plugins.load_folder(folder)
    named = {path: value for path, value in first.items() if path.endswith(".name")}
    named = sweep_defaults(argv, values, command) | values | named
    settled = resolve_components(
        finetune_defaults.default_architecture({**named, **first}) | named, command
    )
    options = index_by_path([*command.command_line, *settled.options])
    flags = parse_flags(
        argv, lambda name: names.find_option(name, options), options.get(command.positional)
    )
    for option in command.command_line:
        flags.pop(option.path, None)
    return settled._replace(values=settled.values | flags)


def sweep_defaults(argv: Sequence[str], values: OptionValues, command: Command) -> OptionValues:
    """Components that only a sweep names: the first of its values stands in for them."""
    if "sweep" not in command.sections:
        return {}
    grid = index_by_path(o for o in command.fixed_options() if o.path == "sweep.grid")
    flags = scan_flags(argv, {**grid, "grid": grid["sweep.grid"]})
    asked = get_value({**values, **flags}, "sweep.grid", [])
    texts = asked if isinstance(asked, list) else [asked]  # a file may give one as text
    tried = first_values(text for text in texts if isinstance(text, str))
    names_ = {
        name: f"{section}.name" for section in COMPONENTS for name in (section, f"{section}.name")
    }
    return {names_[key]: OptionValue(tried[key], "--grid") for key in tried if key in names_}


def bootstrap_options(command: Command) -> dict[str, Option]:
    """Flag -> option, for those that decide what the others are."""
    components = index_by_path(name_option(section) for section in command.components)
    short = {section: components[f"{section}.name"] for section in command.components}
    start = index_by_path(
        o for o in command.fixed_options() if o.path == finetune_defaults.FINETUNE_OPTION
    )
    start |= {path.rpartition(".")[2]: option for path, option in start.items()}
    return {**index_by_path(command.command_line), **components, **short, **start}


def resolve_components(values: OptionValues, command: Command) -> Resolved:
    """Complete the names of the components, and check that every key is an option."""
    values = values | default_components(values, command)
    defaults: dict[str, Any] = dict(command.fixed_sections())
    options = command.fixed_options()
    for section, registry in command.components.items():
        defaults[section] = registry[str(values[f"{section}.name"].value)].config
        options += [name_option(section), *list_options(section, defaults[section])]
    known = index_by_path(options)
    for path, (_, origin) in values.items():
        if path not in known:
            raise names.unknown_option_error(path, known, origin)
    return Resolved(values, defaults, options)


def default_components(values: OptionValues, command: Command) -> OptionValues:
    """The components that were not named; the architecture and the task must be."""
    found: OptionValues = {}
    for section, registry in command.components.items():
        if f"{section}.name" in values:
            check_plain(f"{section}.name", values[f"{section}.name"].value)
        elif section == "criterion":
            task = str((values | found)["task.name"].value)
            build: Any = TASKS[task].factory  # a subclass of Task, which names its criterion
            found["criterion.name"] = OptionValue(build.criterion, f"task {task}")
        elif section in command.defaults:
            found[f"{section}.name"] = OptionValue(command.defaults[section], "default")
        else:
            raise ToolkitError(
                f"--{section} must name one of {', '.join(registry.names())}, but is not given. "
                "See --help."
            )
    return found


def name_option(section: str) -> Option:
    text = f"Which {COMPONENTS[section].kind} to use."
    return Option(f"{section}.name", str, False, False, "", text, None, False)


def index_by_path(options: Iterable[Option]) -> dict[str, Option]:
    return {option.path: option for option in options}


def get_value(values: OptionValues, path: str, default: Any) -> Any:
    return values[path].value if path in values else default

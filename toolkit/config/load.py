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
from toolkit.config.flags import parse, scan
from toolkit.config.options import Option, options_of
from toolkit.config.run import Chosen, RunConfig
from toolkit.config.sources import Given, Values, flattened, plain, read, read_yaml


def build(defaults: Any, options: Sequence[Option], values: Values) -> Any:
    """The config class or instance, with the values given for its options put in its place."""
    structured = OmegaConf.structured(defaults)
    found = {o.name: read(o, values[o.path].value) for o in options if o.path in values}
    try:
        merged = OmegaConf.merge(structured, found)
    except (OmegaConfBaseException, ValueError) as error:
        raise complaint(structured, options, values) from error
    return OmegaConf.to_object(merged)


def complaint(structured: Any, options: Sequence[Option], values: Values) -> ToolkitError:
    """The first value that does not fit alone, in words."""
    for option in options:
        if option.path in values:
            value, origin = values[option.path]
            try:
                OmegaConf.merge(structured, {option.name: read(option, value)})
            except (OmegaConfBaseException, ValueError):
                return ToolkitError(
                    f"{option.path} must be {option.rule}, but is {reprlib.repr(value)} ({origin})."
                )
    raise AssertionError("each value fits alone, so all fit together")


class Resolved(NamedTuple):
    """Every option that the chosen components and sections have, and the values given for them."""

    values: Values
    defaults: dict[str, Any]
    """Section -> config class, or a component's named instance."""
    options: list[Option]

    def built(self) -> dict[str, Any]:
        """Section -> its complete, frozen config."""
        from toolkit.config.load import build  # OmegaConf, which a bare --help does without

        return {
            section: build(default, options_in(section, self.options), self.values)
            for section, default in self.defaults.items()
        }


class Loaded(NamedTuple):
    """What a command acts on: its config, and the sections beside the run's own."""

    config: Any
    extra: dict[str, Any]


def load(argv: Sequence[str], command: Command) -> Loaded:
    """The configs that a command line, and the files it names, ask for."""
    resolved = resolve(argv, command)
    built = resolved.built()
    if command.config is not RunConfig:
        return Loaded(built[""], {})
    extra = {section: built.pop(section) for section in command.sections}
    return Loaded(run_of(resolved, built), extra)


def compose(options: Mapping[str, Any]) -> RunConfig:
    """A run from {"arch": "composite_bert_tiny", "arch.dropout": 0.0, "task": "mlm", ...}.

    Keys are full paths, reserved short names or unambiguous last parts, as on the command line.
    """
    command = Command(name="compose", summary="", example="", config=RunConfig)
    named = {key: value for key, value in options.items() if key in COMPONENTS}
    values = {f"{section}.name": Given(name, "compose") for section, name in named.items()}
    settled = settle(values, command)
    for key, value in options.items():
        if key not in COMPONENTS:
            path = names.find(key, by_path(settled.options), origin="compose").path
            settled.values[path] = Given(value, "compose")
    return run_of(settled, settled.built())


def options_in(section: str, options: Iterable[Option]) -> list[Option]:
    """The options that are fields of a section's config, which the component's name is not."""
    prefix = f"{section}." if section else ""
    return [o for o in options if o.path == prefix + o.name and o.path != f"{section}.name"]


def run_of(resolved: Resolved, built: Mapping[str, Any]) -> RunConfig:
    chosen = {c: Chosen(str(resolved.values[f"{c}.name"].value), built[c]) for c in COMPONENTS}
    return RunConfig(**{**built, **chosen})


def resolve(argv: Sequence[str], command: Command) -> Resolved:
    """Read the words twice: first for files, plugins and components, then for their options."""
    first = scan(argv, early(command))
    values: Values = {}
    for file in given(first, "config", []):
        values |= flattened(read_yaml(file), command, file)
    for folder in given(first, "user_dir", []):
        plugins.load_folder(folder)
    named = {path: value for path, value in first.items() if path.endswith(".name")}
    named = tried_first(argv, values, command) | values | named
    settled = settle(finetune_defaults.architecture({**named, **first}) | named, command)
    options = by_path([*command.command_line, *settled.options])
    flags = parse(argv, lambda name: names.find(name, options), options.get(command.positional))
    for option in command.command_line:
        flags.pop(option.path, None)
    return settled._replace(values=settled.values | flags)


def tried_first(argv: Sequence[str], values: Values, command: Command) -> Values:
    """Components that only a sweep names: the first of its values stands in for them."""
    if "sweep" not in command.sections:
        return {}
    grid = by_path(o for o in command.plain_options() if o.path == "sweep.grid")
    flags = scan(argv, {**grid, "grid": grid["sweep.grid"]})
    asked = given({**values, **flags}, "sweep.grid", [])
    texts = asked if isinstance(asked, list) else [asked]  # a file may give one as text
    tried = first_values(text for text in texts if isinstance(text, str))
    names_ = {
        name: f"{section}.name" for section in COMPONENTS for name in (section, f"{section}.name")
    }
    return {names_[key]: Given(tried[key], "--grid") for key in tried if key in names_}


def early(command: Command) -> dict[str, Option]:
    """Flag -> option, for those that decide what the others are."""
    components = by_path(name_option(section) for section in command.components)
    short = {section: components[f"{section}.name"] for section in command.components}
    start = by_path(o for o in command.plain_options() if o.path == finetune_defaults.OPTION)
    start |= {path.rpartition(".")[2]: option for path, option in start.items()}
    return {**by_path(command.command_line), **components, **short, **start}


def settle(values: Values, command: Command) -> Resolved:
    """Complete the names of the components, and check that every key is an option."""
    values = values | default_names(values, command)
    defaults: dict[str, Any] = dict(command.plain_sections())
    options = command.plain_options()
    for section, registry in command.components.items():
        defaults[section] = registry[str(values[f"{section}.name"].value)].config
        options += [name_option(section), *options_of(section, defaults[section])]
    known = by_path(options)
    for path, (_, origin) in values.items():
        if path not in known:
            raise names.unknown(path, known, origin)
    return Resolved(values, defaults, options)


def default_names(values: Values, command: Command) -> Values:
    """The components that were not named; the architecture and the task must be."""
    found: Values = {}
    for section, registry in command.components.items():
        if f"{section}.name" in values:
            plain(f"{section}.name", values[f"{section}.name"].value)
        elif section == "criterion":
            task = str((values | found)["task.name"].value)
            build: Any = TASKS[task].build  # a subclass of Task, which names its criterion
            found["criterion.name"] = Given(build.criterion, f"task {task}")
        elif section in command.defaults:
            found[f"{section}.name"] = Given(command.defaults[section], "default")
        else:
            raise ToolkitError(
                f"--{section} must name one of {', '.join(registry.names())}, but is not given. "
                "See --help."
            )
    return found


def name_option(section: str) -> Option:
    text = f"Which {COMPONENTS[section].kind} to use."
    return Option(f"{section}.name", str, False, False, "", text, None, False)


def by_path(options: Iterable[Option]) -> dict[str, Option]:
    return {option.path: option for option in options}


def given(values: Values, path: str, default: Any) -> Any:
    return values[path].value if path in values else default

"""Configuration files: YAML whose values stay text until the type of their option is known.

YAML 1.1 turns `no` into false and 1e-4 into text; here an unquoted scalar is null or text.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Hashable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import yaml

from toolkit.common import json_files, plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.common.plugins import Plugin, PluginRecord
from toolkit.common.registry import CALLBACKS, COMPONENTS, suggest_name
from toolkit.config.command import RUN
from toolkit.config.declared import Option
from toolkit.config.load import Resolved, resolve_components, to_run_config
from toolkit.config.sections import ComponentConfig, RunConfig
from toolkit.config.values import (
    Overrides,
    callback_section,
    drop_unknown_callbacks,
    flatten_sections,
)

RECIPE, MAX_BYTES = "recipe:", 16 << 20


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """SafeLoader (no Python objects) that guesses no types and rejects aliases and double keys."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith(":null")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not read", mark)
        return super().compose_node(parent, index)

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        """Keys are text; one that is not, or that is repeated, is an error."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in seen:
                scalar = isinstance(key, yaml.ScalarNode)
                wrong = f"{key.value} is given twice" if scalar else "a key must be text"
                raise yaml.constructor.ConstructorError(None, None, wrong, key.start_mark)
            seen.add(key.value)
            key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


def read_recipes() -> dict[str, str]:
    """Name -> text of every recipe, a configuration file of the package: recipe:NAME."""
    found = [f for f in (files("toolkit") / "recipes").iterdir() if f.name.endswith(".yaml")]
    texts = {file.name.removesuffix(".yaml"): file.read_text("utf-8") for file in found}
    return dict(sorted(texts.items()))


def list_recipes() -> dict[str, str]:
    """Name -> summary, the comment in the first line."""
    return {name: text.splitlines()[0].lstrip("# ") for name, text in read_recipes().items()}


def read_yaml(path: str) -> dict[str, Any]:
    """The sections of a configuration file, or of `recipe:NAME`; an unreadable one is an error."""
    try:
        tree = yaml.load(read_source(path), PlainLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        remedy = f"Write recipe:{path}" if path in read_recipes() else "Check the path"
        raise ToolkitError(f"Cannot read --config {path}: {reason}. {remedy}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        where = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            where = f"line {error.problem_mark.line + 1}: {error.problem}"
        raise ToolkitError(f"--config must name a YAML file, but {path}: {where}.") from error
    if tree is not None and not isinstance(tree, dict):
        raise ToolkitError(
            f"--config must name a file of sections such as `data:`, but {path} holds "
            f"a {type(tree).__name__}."
        )
    return tree or {}


def read_source(path: str) -> str:
    """The text of a configuration file, which may be a pipe, or of a recipe."""
    if path.startswith(RECIPE):
        name, recipes = path.removeprefix(RECIPE), read_recipes()
        if name not in recipes:
            raise ToolkitError(f"no recipe is called {name!r}. {suggest_name(name, list(recipes))}")
        return recipes[name]
    with open_regular(Path(path), MAX_BYTES, allow_pipe=True) as file:
        return file.read().decode()


Differences = Mapping[str, tuple[object, object]]
"""Option -> its values before and after."""


def to_dict(run: RunConfig) -> dict[str, Any]:
    """{"arch": {"name": ..., field: value, ...}, ..., "data": {...}}, in the fields' order.

    A callback is a section callback.NAME.
    """
    sections: dict[str, Any] = {}
    for field in dataclasses.fields(run):
        section = getattr(run, field.name)
        if isinstance(section, ComponentConfig):
            sections[field.name] = {"name": section.name, **dataclasses.asdict(section.config)}
        elif field.name == "callbacks":
            options = {callback_section(n): dataclasses.asdict(c) for n, c in section.items()}
            sections |= {name: values for name, values in options.items() if values}
        else:
            sections[field.name] = dataclasses.asdict(section)
    return sections


def from_dict(saved: Mapping[str, object]) -> RunConfig:
    """The run that to_dict wrote. Fields it lacks get their defaults; unknown ones are errors.

    Callbacks whose plugins are not loaded are left out.
    """
    values = drop_unknown_callbacks(flatten_sections(saved, RUN, "saved configuration"))
    return to_run_config(resolve_components(values, RUN).build_configs())


def describe_run_plugins(run: RunConfig) -> list[PluginRecord]:
    """Names and digests of the plugins that a run's components come from, for its checkpoints."""
    return [{"name": p.name, "sha256": p.sha256} for p in plugins.find_plugins(components(run))]


def find_run_plugins(run: RunConfig) -> list[Plugin]:
    """The plugins that a run's components and callbacks come from."""
    return plugins.find_plugins(
        [*components(run), *(CALLBACKS[name].factory for name in run.callbacks)]
    )


def components(run: RunConfig) -> list[Callable[..., object]]:
    """The functions and classes that build a run's components."""
    return [registry[getattr(run, s).name].factory for s, registry in COMPONENTS.items()]


def flatten(value: object, path: str = "") -> dict[str, object]:
    """{a: {b: 1}} -> {"a.b": 1}."""
    if not isinstance(value, Mapping):
        return {path: value}
    return {
        name: leaf
        for key, part in value.items()
        for name, leaf in flatten(part, f"{path}.{key}" if path else str(key)).items()
    }


def diff_configs(
    before: Mapping[str, object], after: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """Option -> its value in either run (as to_dict gives them), if they differ.

    The value of an option that a run lacks is None; values are compared as JSON would keep them.
    """
    old, new = (flatten(json.loads(json_files.dumps(run))) for run in (before, after))
    return {
        path: (old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    }


def describe_differences(differences: Differences) -> str:
    """ "arch.width was 64 and is now 128; ..."."""
    return "; ".join(list_differences(differences))


def list_differences(differences: Differences) -> list[str]:
    """["arch.width was 64 and is now 128", ...]."""
    return [
        f"{path} was {before!r} and is now {after!r}"
        for path, (before, after) in differences.items()
    ]


def to_yaml_file(run: RunConfig) -> str:
    """Every option as YAML that --config reads back."""
    lines: list[str] = []
    for section, options in to_dict(run).items():
        lines.append(f"{section}:")
        lines += [f"  {name}: {to_yaml(value)}" for name, value in options.items()]
    return "\n".join(lines) + "\n"


def print_config(resolved: Resolved) -> str:
    """YAML that --config reads back: for each option its value and, as a comment, its origin."""
    built = resolved.build_configs()
    lines: list[tuple[str, str]] = []
    for option in resolved.options:
        section = option.path.removesuffix(option.name).rstrip(".")
        value = resolved_value(built[section], option)
        if section and f"{section}:" not in [line for line, _ in lines]:
            lines.append((f"{section}:", ""))
        key = f"  {option.name}" if section else option.name
        lines.append((f"{key}: {to_yaml(value)}", value_origin(resolved, section, option, value)))
    left = min(60, max(len(line) for line, _ in lines))
    return "\n".join(f"{line.ljust(left)}  # {note}" if note else line for line, note in lines)


def resolved_value(config: object, option: Option) -> object:
    """The value of an option in a config, a component or a set of overrides."""
    if isinstance(config, ComponentConfig):
        return config.name if option.name == "name" else getattr(config.config, option.name)
    if isinstance(config, Overrides):
        return config.values[option.name]
    return getattr(config, option.name)


def value_origin(resolved: Resolved, section: str, option: Option, value: object) -> str:
    """Origin of a value: a file, a flag, the default, or a named component that changes it."""
    if option.path in resolved.values:
        return resolved.values[option.path].origin
    default = resolved.defaults[section]
    if isinstance(default, type):
        return "default"
    fields = {f.name: f.default for f in dataclasses.fields(default)}
    changed = fields[option.name] is not dataclasses.MISSING and fields[option.name] != value
    return f"{section} {resolved.values[f'{section}.name'].value}" if changed else "default"


def to_yaml(value: object) -> str:
    """YAML that is read back as the same value: quotes only where they are needed."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(to_yaml(item) for item in value)}]"
    text: str = yaml.safe_dump([value], width=float("inf"), default_flow_style=True)
    return text.strip()[1:-1]

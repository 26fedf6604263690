"""Runs as plain data and as YAML files, and the differences between two runs."""

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
from toolkit.common.json_files import name_file
from toolkit.common.plugins import PluginRecord
from toolkit.common.registry import CALLBACKS, COMPONENTS, suggest_name
from toolkit.config.command import RUN
from toolkit.config.load import Resolved, resolve_components, to_run_config
from toolkit.config.sections import ComponentConfig, RunConfig
from toolkit.config.values import (
    SELECTED_CALLBACKS,
    Overrides,
    callback_section,
    flatten_sections,
    keep_callbacks,
    selected_callbacks,
)

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
        elif field.name != "schedules":
            sections[field.name] = dataclasses.asdict(section)
    for path, schedule in run.schedules.items():
        section, _, name = path.rpartition(".")
        sections[section][name] = schedule.text
    return sections


def from_dict(saved: Mapping[str, object]) -> RunConfig:
    """The run that to_dict wrote. Fields it lacks get their defaults; unknown ones are errors.

    Callbacks whose plugins are not loaded are left out.
    """
    values = flatten_sections(saved, RUN, "saved configuration")
    known = [name for name in selected_callbacks(values) if name in CALLBACKS]
    values = keep_callbacks(values, known)
    if (path := SELECTED_CALLBACKS.path) in values:
        values[path] = values[path]._replace(value=known)
    return to_run_config(resolve_components(values, RUN).build_configs())


def describe_run_plugins(run: RunConfig) -> list[PluginRecord]:
    """Names and digests of the plugins that a run's components come from, for its checkpoints."""
    return [{"name": p.name, "sha256": p.sha256} for p in plugins.find_plugins(components(run))]


def components(run: RunConfig) -> list[Callable[..., object]]:
    """The functions and classes that build a run's components."""
    terms = getattr(run.arch.config, "term_classes", {}).values()
    return [registry[getattr(run, s).name].factory for s, registry in COMPONENTS.items()] + [*terms]


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
        section = option.section
        config = built[section]
        if isinstance(config, ComponentConfig):
            if option.name != "name" and not hasattr(config.config, option.name):
                continue  # an option of a plugin's term that is not chosen
            value = config.name if option.name == "name" else getattr(config.config, option.name)
        elif isinstance(config, Overrides):
            value = config.values[option.name]
        else:
            value = getattr(config, option.name)
        if option.path in built.get("schedules", {}):
            value = built["schedules"][option.path].text
        if section and f"{section}:" not in [line for line, _ in lines]:
            lines.append((f"{section}:", ""))
        key = f"  {option.name}" if section else option.name
        default, origin = resolved.defaults[section], "default"
        if option.path in resolved.values:
            origin = resolved.values[option.path].origin
        elif section and not isinstance(default, type):  # a component, which may change it
            fields = {field.name: field.default for field in dataclasses.fields(default)}
            if fields[option.name] not in (dataclasses.MISSING, value):
                origin = f"{section} {resolved.values[f'{section}.name'].value}"
        lines.append((f"{key}: {to_yaml(value)}", origin))
    left = min(60, max(len(line) for line, _ in lines))
    return "\n".join(f"{line.ljust(left)}  # {note}" if note else line for line, note in lines)


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


RECIPE, SUITE, MAX_BYTES = "recipe:", "suite:", 16 << 20


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


def read_recipes(kind: str = RECIPE) -> dict[str, str]:
    """Name -> text of every recipe, a configuration file of the package: recipe:NAME; or suite."""
    folder = files("toolkit") / f"{kind[:-1]}s"
    found = [f for f in folder.iterdir() if f.name.endswith(".yaml")]
    texts = {file.name.removesuffix(".yaml"): file.read_text("utf-8") for file in found}
    return dict(sorted(texts.items()))


def list_recipes() -> dict[str, str]:
    """Name -> summary, the comment in the first line."""
    return {name: text.splitlines()[0].lstrip("# ") for name, text in read_recipes().items()}


def read_yaml(path: str, option: str = "--config") -> dict[str, Any]:
    """The sections of a configuration file, or of `recipe:NAME`; an unreadable one is an error."""
    is_recipe = not Path(path).exists() and path in read_recipes()
    remedy = f"Write recipe:{path}." if is_recipe else "Check the path."
    try:
        with name_file(Path(path), remedy):
            tree = yaml.load(read_source(path), PlainLoader)
    except (yaml.YAMLError, RecursionError) as error:
        where = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            where = f"line {error.problem_mark.line + 1}: {error.problem}"
        raise ToolkitError(f"{option} must name a YAML file, but {path}: {where}.") from error
    if tree is not None and not isinstance(tree, dict):
        raise ToolkitError(
            f"{option} must name a file of sections such as `data:`, but {path} holds "
            f"a {type(tree).__name__}."
        )
    return tree or {}


def read_source(path: str) -> str:
    """The text of a configuration file, which may be a pipe, or of a recipe or suite."""
    for kind in (RECIPE, SUITE):
        if path.startswith(kind):
            name, known = path.removeprefix(kind), read_recipes(kind)
            if name not in known:
                hint = suggest_name(name, list(known))
                raise ToolkitError(f"no {kind[:-1]} is called {name!r}. {hint}")
            return known[name]
    with open_regular(Path(path), MAX_BYTES, allow_pipe=True) as file:
        return file.read().decode()

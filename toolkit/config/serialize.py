"""Runs as plain data and as YAML files, and the differences between two runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from toolkit.common import json_files, plugins
from toolkit.common.plugins import PluginRecord
from toolkit.common.registry import CALLBACKS, COMPONENTS
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
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(to_yaml(item) for item in value)}]"
    text: str = yaml.safe_dump([value], width=float("inf"), default_flow_style=True)
    return text.strip()[1:-1]

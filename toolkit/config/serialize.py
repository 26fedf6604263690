"""A resolved configuration as YAML that --config reads back, with where each value came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import yaml

from toolkit.common import plugins
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import Command
from toolkit.config.load import Resolved, resolve_components, to_run_config
from toolkit.config.options import Option
from toolkit.config.run import ComponentConfig, RunConfig
from toolkit.config.sources import flatten_sections


def print_config(resolved: Resolved) -> str:
    """One line for each option: its key, its value and, as a comment, the value's origin."""
    built = resolved.build_configs()
    lines: list[tuple[str, str]] = []
    for option in resolved.options:
        section = option.path.removesuffix(option.name).rstrip(".")
        value = resolved_value(resolved, built, section, option)
        if section and f"{section}:" not in [line for line, _ in lines]:
            lines.append((f"{section}:", ""))
        key = f"  {option.name}" if section else option.name
        lines.append((f"{key}: {to_yaml(value)}", value_origin(resolved, section, option, value)))
    left = min(60, max(len(line) for line, _ in lines))
    return "\n".join(f"{line.ljust(left)}  # {note}" if note else line for line, note in lines)


def resolved_value(resolved: Resolved, built: dict[str, Any], section: str, option: Option) -> Any:
    if option.path == f"{section}.name":
        return resolved.values[option.path].value
    return getattr(built[section], option.name)


def value_origin(resolved: Resolved, section: str, option: Option, value: Any) -> str:
    """What gave the value; a named component where it differs from its config class."""
    if option.path in resolved.values:
        return resolved.values[option.path].origin
    default = resolved.defaults[section]
    if isinstance(default, type):
        return "default"
    fields = {f.name: f.default for f in dataclasses.fields(default)}
    changed = fields[option.name] is not dataclasses.MISSING and fields[option.name] != value
    return f"{section} {resolved.values[f'{section}.name'].value}" if changed else "default"


def to_yaml(value: Any) -> str:
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


RUN_COMMAND = Command(name="", summary="", example="", config=RunConfig)


def to_dict(run: RunConfig) -> dict[str, Any]:
    """{"arch": {"name": ..., field: value, ...}, ..., "data": {...}}, in the fields' order."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(run):
        section = getattr(run, field.name)
        if isinstance(section, ComponentConfig):
            found[field.name] = {"name": section.name, **dataclasses.asdict(section.config)}
        else:
            found[field.name] = dataclasses.asdict(section)
    return found


def from_dict(saved: Mapping[str, Any]) -> RunConfig:
    """The run that to_dict wrote. Fields it lacks get their defaults; unknown ones are errors."""
    settled = resolve_components(
        flatten_sections(saved, RUN_COMMAND, "saved configuration"), RUN_COMMAND
    )
    return to_run_config(settled, settled.build_configs())


def describe_run_plugins(run: RunConfig) -> list[dict[str, str]]:
    """Names and digests of the plugins that a run's components come from, for its checkpoints."""
    chosen = {section: getattr(run, section).name for section in COMPONENTS}
    return plugins.describe_plugins(
        COMPONENTS[section][name].factory for section, name in chosen.items()
    )

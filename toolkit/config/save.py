"""A run as plain data, for checkpoints and result files, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from toolkit.common import plugins
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import Command
from toolkit.config.given import flattened
from toolkit.config.load import run_of, settle
from toolkit.config.run import Chosen, RunConfig

RUN = Command(name="", summary="", example="", config=RunConfig)


def to_dict(run: RunConfig) -> dict[str, Any]:
    """{"arch": {"name": ..., field: value, ...}, ..., "data": {...}}, in the fields' order."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(run):
        section = getattr(run, field.name)
        if isinstance(section, Chosen):
            found[field.name] = {"name": section.name, **dataclasses.asdict(section.config)}
        else:
            found[field.name] = dataclasses.asdict(section)
    return found


def from_dict(saved: Mapping[str, Any]) -> RunConfig:
    """The run that to_dict wrote. Fields it lacks get their defaults; unknown ones are errors."""
    settled = settle(flattened(saved, RUN, "saved configuration"), RUN)
    return run_of(settled, settled.built())


def plugins_of(run: RunConfig) -> list[dict[str, str]]:
    """Names and digests of the plugins that a run's components come from, for its checkpoints."""
    chosen = {section: getattr(run, section).name for section in COMPONENTS}
    return plugins.recorded(COMPONENTS[section][name].build for section, name in chosen.items())

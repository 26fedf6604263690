"""The record of a run's starts, `environment.json`, and its configuration, `config.yaml`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import toolkit
from toolkit.common.errors import ToolkitError
from toolkit.common.files import atomic_file
from toolkit.common.json_files import Count, JsonError, JsonObject, convert, read_json, write_json
from toolkit.common.plugins import find_plugins
from toolkit.common.registry import CALLBACKS
from toolkit.common.system import describe_commit
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import (
    components,
    diff_configs,
    list_differences,
    to_yaml_file,
)
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed.environment import describe_machine, installed_commit, package_versions

CONFIG_FILE, ENVIRONMENT_FILE = "config.yaml", "environment.json"
HEADER = "# To repeat this run: toolkit-train --config config.yaml --save-dir ANOTHER\n"
VARIABLES = ("WORLD_SIZE", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
"""Environment variables that are recorded. Others may be secret."""
COMPARED = ("toolkit", "plugins", "packages", "cpu", "gpus", "device", "ranks")
"""Facts that are compared with those of the previous start."""


SHOWN: dict[str, Any] = {
    **{"update": Count, "time": str, "working_directory": str, "toolkit": JsonObject},
    **{"plugins": list[JsonObject], "packages": dict[str, str], "host": str, "os": str},
    **{"cpu": str, "cores": int, "gpus": list[str], "device": str, "ranks": Count},
    **{"command": str | None, "resumed_from": str | None, "memory_gib": float | None},
    "data": list[dict[str, str]] | None,
}
"""What is shown of a start -> its type; None for what older versions did not record."""


def record_start(
    folder: Path,
    config: RunConfig,
    data: DataFolder,
    environment: Mapping[str, str],
    facts: JsonObject,
) -> str:
    """Write the configuration, and append a start to the record; failing to do so is no error.

    `environment` is the device and the versions that `describe_environment` gives; `facts` are
    what else is known of the start. Returns what to tell the user: that writing failed, or the
    differences from the previous start.
    """
    try:
        with atomic_file(folder / CONFIG_FILE) as temporary:
            temporary.write_text(HEADER + to_yaml_file(config), "utf-8")
        starts = read_starts(folder)
        start = {**gather_facts(config, data, environment), **facts}
        write_json(folder / ENVIRONMENT_FILE, [*starts, start], indent=1, ensure_ascii=False)
    except (OSError, ValueError) as error:
        return f"the start of this run was not recorded: {error}"
    earlier = starts[-1] if starts else start
    old, new = ({key: it.get(key) for key in COMPARED} for it in (earlier, start))
    changed = diff_configs(old, new)
    lines = ["environment that differs from the previous start:", *list_differences(changed)]
    return "\n  ".join(lines) if changed else ""


def read_starts(folder: Path) -> list[JsonObject]:
    """The starts of the run in a save folder, oldest first; none without a record."""
    path = folder / ENVIRONMENT_FILE
    if not path.exists():
        return []
    return read_json(path, list[JsonObject], "Delete it: the record is no part of the run.")


def read_complete_starts(folder: Path) -> list[JsonObject]:
    """The starts that have the fields that are shown."""
    complete = []
    for start in read_starts(folder):
        with suppress(JsonError):
            for name, kind in SHOWN.items():
                convert(start.get(name), kind)
            complete.append(start)
    return complete


def find_start(checkpoint: Path, update: int | None) -> JsonObject | None:
    """The recorded start since which a checkpoint was trained; None if there is no record."""
    try:
        starts = read_complete_starts(checkpoint.resolve().parent)
    except ToolkitError:
        return None
    earlier = [start for start in starts if start["update"] < (update or 0)]
    return next(iter([*reversed(earlier), *starts]), None)


def describe_start(start: JsonObject | None) -> dict[str, str]:
    """Name -> fact, such as the command line and the commit; empty without a record."""
    if not start:
        return {}
    origin, ranks, memory = start.get("resumed_from"), start["ranks"], start.get("memory_gib")
    machine = [
        f"{start['host']} ({start['os']})",
        f"{start['cores']} cores of {start['cpu']}" + (f", {memory} GiB" if memory else ""),
        *start["gpus"],
        f"{ranks} rank{'s' * (ranks != 1)} on {start['device']}",
    ]
    sources = []
    for code in [{"name": "toolkit", **start["toolkit"]}, *start["plugins"]]:
        source = " ".join(str(code[key]) for key in ("name", "version") if key in code)
        source += f", package {code['package']}" if "package" in code else ""
        changes = " with uncommitted changes" if code.get("uncommitted_changes") else ""
        commit = f"commit {code['commit']}{changes}" if "commit" in code else code.get("no_commit")
        sources.append(f"{source}, {commit}")
    return {
        "command": start.get("command") or "none: started from Python",
        "started": f"{start['time']} in {start['working_directory']}"
        + (f", resumed from {origin}" if origin else ""),
        "code": "; ".join(sources),
        "packages": ", ".join(f"{name} {version}" for name, version in start["packages"].items()),
        "machine": "; ".join(map(str, machine)),
    }


def gather_facts(config: RunConfig, data: DataFolder, environment: Mapping[str, str]) -> JsonObject:
    """Time, code, packages, machine, environment variables and data of a run."""
    commit = installed_commit()
    source = {"commit": commit} if commit else describe_commit(Path(toolkit.__file__).parent)
    versions = {name: it for name, it in environment.items() if name not in ("toolkit", "device")}
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "working_directory": os.getcwd(),
        "toolkit": {"version": toolkit.__version__, **source},
        "plugins": describe_plugins(config),
        "packages": package_versions() | versions,
        **describe_machine(),
        "device": environment["device"],
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "data": [
            {"folder": str(source.path), "fingerprint": source.digest} for source in data.sources
        ],
    }


def describe_plugins(config: RunConfig) -> list[JsonObject]:
    """Name, digest, folder, package and commit of the plugins that a run uses."""
    observers = [CALLBACKS[name].factory for name in config.callbacks]
    return [
        {
            "name": plugin.name,
            "sha256": plugin.sha256,
            "folder": str(plugin.folder),
            **({"package": plugin.distribution} if plugin.distribution else {}),
            **describe_commit(plugin.folder),
        }
        for plugin in find_plugins([*components(config), *observers])
    ]

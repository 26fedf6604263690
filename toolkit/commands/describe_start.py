"""Description of the start of the run that wrote a checkpoint."""

from __future__ import annotations

from pathlib import Path

from toolkit.checkpoints.start_record import read_complete_starts
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject


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
    origin = start.get("resumed_from")
    resumed = f", resumed from {origin}" if origin else ""
    code = [{"name": "toolkit", **start["toolkit"]}, *start["plugins"]]
    return {
        "command": start.get("command") or "none: started from Python",
        "started": f"{start['time']} in {start['working_directory']}{resumed}",
        "code": "; ".join(map(describe_code, code)),
        "packages": ", ".join(f"{name} {version}" for name, version in start["packages"].items()),
        "machine": describe_machine(start),
    }


def describe_code(code: JsonObject) -> str:
    """ "toolkit 0.1.0, commit 1a2b3c with uncommitted changes"."""
    name = " ".join(str(code[key]) for key in ("name", "version") if key in code)
    package = f", package {code['package']}" if "package" in code else ""
    if "commit" not in code:
        return f"{name}{package}, {code.get('no_commit')}"
    changes = " with uncommitted changes" if code.get("uncommitted_changes") else ""
    return f"{name}{package}, commit {code['commit']}{changes}"


def describe_machine(start: JsonObject) -> str:
    """Host, processors, GPUs and ranks of a run, in one line."""
    ranks, memory = start["ranks"], start.get("memory_gib")
    parts = [
        f"{start['host']} ({start['os']})",
        f"{start['cores']} cores of {start['cpu']}" + (f", {memory} GiB" if memory else ""),
        *start["gpus"],
        f"{ranks} rank{'s' * (ranks != 1)} on {start['device']}",
    ]
    return "; ".join(map(str, parts))

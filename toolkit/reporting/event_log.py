"""The log of a run as records: one JSON object a line, in the order in which things happened."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError

EventValue = float | int | str | None
EventValues = Mapping[str, EventValue]
"""The figures of one event: numbers, and where they belong (subset, path) as text."""
Record = dict[str, Any]


def to_scalars(event: str, values: EventValues) -> dict[str, float]:
    """Numbers by the names of dashboards: train/loss, valid/loss, valid/test/loss for a subset."""
    subset = values.get("subset")
    prefix = event if subset in (None, "valid") else f"{event}/{subset}"
    numbers = {n: v for n, v in values.items() if n != "update" and isinstance(v, int | float)}
    return {f"{prefix}/{name}": float(value) for name, value in numbers.items()}


def read_records(path: Path) -> list[Record]:
    """Every record of a metrics.jsonl; a last line torn by a killed writer is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise ToolkitError(
            f"{path} must be a log of toolkit-train, but cannot be read: {error.strerror}. "
            f"Check the path."
        ) from error
    torn = lines.pop()  # what follows the last line feed: nothing, or half a record
    found = [parse_record(line) for line in lines]
    if None in found:
        broken = found.index(None)
        raise ToolkitError(
            f"{path} must hold one JSON object a line, but line {broken + 1} is "
            f"{lines[broken][:40]!r}. Remove that line."
        )
    return [record for record in (*found, parse_record(torn)) if record is not None]


def parse_record(line: str) -> Record | None:
    """The line's record; None where it is none, or only the beginning of one."""
    try:
        record = json_files.loads(line)
    except json.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def write_records(path: Path, records: Iterable[EventValues]) -> None:
    """Replace the log; a reader sees the old one or the new one, never half."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text("".join(json_files.dumps(r) + "\n" for r in records), encoding="utf-8")
    os.replace(fresh, path)

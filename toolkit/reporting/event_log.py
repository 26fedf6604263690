"""Event log of a run: one JSON object per line, in chronological order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypedDict

from toolkit.common import json_files
from toolkit.common.atomic import atomic_file
from toolkit.common.errors import ToolkitError
from toolkit.common.input_files import read_bytes
from toolkit.common.json_files import Count, JsonError, JsonObject, convert

EventValue = float | int | str | None
EventValues = Mapping[str, EventValue]
"""Values of one event: metrics as numbers, and text such as subset and path."""
Record = JsonObject


class RecordHead(TypedDict, total=False):
    """What every command reads of an event."""

    event: str
    update: Count
    subset: str | None


def to_scalars(event: str, values: EventValues) -> dict[str, float]:
    """Metrics by their names on dashboards: train/loss, valid/loss, valid/test/loss."""
    subset = values.get("subset")
    prefix = event if subset in (None, "valid") else f"{event}/{subset}"
    numbers = {n: v for n, v in values.items() if n != "update" and isinstance(v, int | float)}
    return {f"{prefix}/{name}": float(value) for name, value in numbers.items()}


def read_records(path: Path) -> list[Record]:
    """All records of a metrics.jsonl; an incomplete last line of a killed writer is skipped."""
    try:
        lines = read_bytes(path).decode(errors="replace").split("\n")
    except OSError as error:
        raise ToolkitError(
            f"{path} must be a readable log of toolkit-train, but is not: {error.strerror}. "
            f"Check the path."
        ) from error
    last = lines.pop()  # after the last newline: nothing, or an incomplete record
    records = [parse_record(line) for line in lines]
    if None in records:
        index = records.index(None)
        raise ToolkitError(
            f"{path} must hold one JSON object per line, but line {index + 1} is "
            f"{lines[index][:40]!r}. Remove that line."
        )
    return [record for record in (*records, parse_record(last)) if record is not None]


def parse_record(line: str) -> Record | None:
    """The record of a line; None if it is not a complete JSON object."""
    try:
        record: Record = json_files.loads(line)
        convert(record, RecordHead)
    except JsonError:
        return None
    return record


def write_records(path: Path, records: Iterable[EventValues]) -> None:
    """Replace the log atomically."""
    with atomic_file(path) as temporary:
        lines = "".join(json_files.dumps(record) + "\n" for record in records)
        temporary.write_text(lines, encoding="utf-8")

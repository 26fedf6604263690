"""Runs in their save folders: event logs, one JSON object per line, and configurations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes
from toolkit.common.json_files import Count, JsonError, JsonObject, convert, name_file, read_json
from toolkit.config.serialize import flatten

EventValue = float | int | str | None
EventValues = Mapping[str, EventValue]
"""Values of one event: metrics as numbers, and text such as subset and path."""
HEAD: dict[str, Any] = {"event": str | None, "update": Count | None, "subset": str | None}
"""What every command reads of an event -> its type."""


def to_scalars(event: str, values: EventValues) -> dict[str, float]:
    """Metrics by their names on dashboards: train/loss, valid/loss, valid/test/loss."""
    subset = values.get("subset")
    prefix = event if subset in (None, "valid") else f"{event}/{subset}"
    numbers = {n: v for n, v in values.items() if n != "update" and isinstance(v, int | float)}
    return {f"{prefix}/{name}": float(value) for name, value in numbers.items()}


def read_log(path: Path) -> list[JsonObject]:
    """All records of a metrics.jsonl; an incomplete last line of a killed writer is skipped."""
    with name_file(path, "Name the log of a run."):
        lines = read_bytes(path).decode(errors="replace").split("\n")
    records = list[JsonObject]()
    for number, line in enumerate(lines, 1):
        try:
            record: JsonObject = convert(json_files.loads(line), JsonObject)
            for name, kind in HEAD.items():
                convert(record.get(name), kind)
            records.append(record)
        except JsonError:
            if number < len(lines):
                raise ToolkitError(
                    f"{path} must hold one JSON object per line, but line {number} is "
                    f"{line[:40]!r}. Remove that line."
                ) from None
    return records


METRICS_FILE, RESULT_FILE = "metrics.jsonl", "result.json"
OPTIONS_FILE = "options.yaml"  # of a run in a sweep; JSON, which is valid YAML
IRRELEVANT_OPTIONS = ("checkpoint.", "logging.", "data.num_workers")
"""Prefixes of options that do not change the result of a run."""
WEIGHT_OPTIONS = ("checkpoint.finetune_from", "checkpoint.restore_file")
"""Options of checkpoints that do change it."""


@dataclass(frozen=True)
class LoggedRun:
    """The log and the options of one run."""

    folder: Path
    records: Sequence[JsonObject]
    options: JsonObject
    """Option path -> value, without the seed and options that do not change the result."""


def read_runs(folders: Iterable[str | Path]) -> list[LoggedRun]:
    """The runs in these folders, in their subfolders, or in files of results; each once."""
    runs: dict[Path | str, LoggedRun] = {}
    for folder in map(Path, folders):
        if folder.is_file():
            runs |= {f"{folder} {number}": run for number, run in enumerate(read_results(folder))}
            continue
        is_run = (folder / METRICS_FILE).exists()
        if not (logs := sorted(folder.glob(METRICS_FILE if is_run else f"*/{METRICS_FILE}"))):
            raise ToolkitError(
                f"No run in {folder}: it has no {METRICS_FILE}, nor have its subfolders. "
                f"Name the --save-dir of a run."
            )
        for log in logs:
            runs[log.parent.resolve()] = LoggedRun(
                log.parent, read_log(log), read_options(log.parent)
            )
    return list(runs.values())


def read_results(file: Path) -> list[LoggedRun]:
    """The runs in a file of toolkit-validate --all-checkpoints."""
    runs: dict[tuple[Path, str], tuple[JsonObject, list[JsonObject]]] = {}
    for record in read_log(file):
        if not {"update", "words", "evaluation"} <= record.keys():
            raise ToolkitError(
                f"{file} must hold results of toolkit-validate --all-checkpoints, but does not. "
                f"Name the file of its --results-path, or the save folder of a run."
            )
        folder = Path(record.get("path") or record["checkpoint"]).parent
        given = {key: value for key, value in record.items() if "." in key}  # of the task
        key = folder, json_files.dumps(given)
        runs.setdefault(key, (given, []))[1].extend(list_measures(record))
    return [
        LoggedRun(folder, records, {**read_options(folder), **given})
        for (folder, _), (given, records) in runs.items()
    ]


OVERALL = "overall"


def list_measures(record: JsonObject) -> list[JsonObject]:
    """A record of metrics for all items of a result, and one for each group of them, its subset.

    `part_of` names the group that has the group; it is empty for those to be shown first.
    """
    if "subset" in record:
        return [{**record, "event": "valid", "part_of": ""}]
    head = {"event": "valid", "update": record["update"], "words": record["words"]}
    whole, overall = record.get("set", ""), {**record["overall"]}
    if whole:
        overall["accuracy" if overall else "spearman"] = record["score"]
    found = {whole or OVERALL: {**head, **overall, "part_of": ""}} if overall else {}
    for row in (*record["phenomena"], *record["paradigms"], *record.get("correlations", ())):
        found.setdefault(row["name"], {**head, **row, "part_of": row.get("phenomenon") or whole})
    return [{**values, "subset": subset} for subset, values in found.items()]


def main_value(row: Mapping[str, Any]) -> float:
    """The accuracy of a group of items, or what stands for it in a set without right answers."""
    return float(next(row[it] for it in ("accuracy", "spearman", "partial_r2") if it in row))


def read_options(folder: Path) -> JsonObject:
    """Options from the run's result, else from its sweep options, else its path."""
    for name in (RESULT_FILE, OPTIONS_FILE):
        try:
            saved = read_json(folder / name, JsonObject, "", non_finite=True)
        except ToolkitError:
            continue
        options = relevant_options(saved.get("config", saved))
        return {key: value for key, value in options.items() if key != "training.seed"}
    return {"run": name_model(str(folder))}


def name_model(path: str) -> str:
    """The path of a run or checkpoint without seeds, which those of one model share."""
    return Path(re.sub(r",?\bseed=\d+", "", path)).as_posix()


def relevant_options(config: JsonObject) -> JsonObject:
    """Option path -> value, for all options that change the result of a run."""
    return {
        path: value
        for path, value in flatten(config).items()
        if path in WEIGHT_OPTIONS or not path.startswith(IRRELEVANT_OPTIONS)
    }


def group_runs(runs: Sequence[LoggedRun]) -> dict[str, list[LoggedRun]]:
    """Runs grouped by configuration, and named by the options in which the groups differ.

    If these are ambiguous, groups are named by their folders. Groups are sorted by their numeric
    options.
    """
    groups: dict[str, list[LoggedRun]] = {}
    for run in runs:
        groups.setdefault(json_files.dumps(sorted(run.options.items())), []).append(run)
    firsts = [group[0].options for group in groups.values()]
    keys = dict.fromkeys(key for options in firsts for key in options)
    differing = [k for k in keys if count_distinct(firsts, k) > 1]
    for name in [k for k in differing if k.endswith(".name")]:
        if name in differing:  # two components may imply each other
            count = count_distinct(firsts, name)
            differing = [
                k for k in differing if k == name or count_distinct(firsts, name, k) > count
            ]

    def numbers(group: Sequence[LoggedRun]) -> list[float]:
        values = [group[0].options.get(key) for key in differing]
        return [float(v) if isinstance(v, int | float) and v is not True else 0.0 for v in values]

    ordered = sorted(groups.values(), key=numbers)
    names = [describe_group(group[0], differing) for group in ordered]
    if len(set(names)) < len(names):
        names = short_names([str(group[0].folder) for group in ordered])
    return dict(zip(names, ordered, strict=True))


def count_distinct(options: Sequence[JsonObject], *keys: str) -> int:
    """Number of different combinations of values of these keys."""
    return len({json_files.dumps([it.get(key) for key in keys]) for it in options})


def describe_group(run: LoggedRun, differing: Sequence[str]) -> str:
    """`fixed=true, dynamic=false`; the folder's name for a single configuration."""
    keys = [key for key in differing if key in run.options and key != "run"]
    options = [(key.rpartition(".")[2], run.options[key]) for key in keys]
    text = ", ".join(v if k == "name" else f"{k}={format_value(v)}" for k, v in options)
    return text or Path(name_model(str(run.folder))).name


def format_value(value: object) -> str:
    """An option's value as on the command line; items of a list are separated by spaces."""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def short_names(paths: Sequence[str]) -> list[str]:
    """The shortest suffixes of the paths that are distinct."""
    parts = [Path(path).parts for path in paths]
    for count in range(1, max(map(len, parts))):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(set(paths)):
            return names
    return list(paths)

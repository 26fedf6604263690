"""Differences between the runs of several checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkit.checkpoints.start_record import COMPARED
from toolkit.commands.describe_checkpoint import read_checkpoint
from toolkit.common.json_files import JsonObject
from toolkit.config.serialize import flatten
from toolkit.reporting.runs import count_distinct, format_value, relevant_options, short_names
from toolkit.reporting.tables import Table


def compare_runs(checkpoints: Sequence[Path]) -> dict[str, list[object]]:
    """Option, or fact about code and machine -> its values in each run, if they differ.

    Left out are names of folders, options of logging, and those that only some of the runs have.
    """
    runs = [describe_run(checkpoint) for checkpoint in checkpoints]
    shared = [name for name in runs[0] if all(name in run for run in runs)]
    differing = [name for name in shared if count_distinct(runs, name) > 1]
    return {name: [run[name] for run in runs] for name in differing}


def describe_run(checkpoint: Path) -> JsonObject:
    """The options of a checkpoint's run, and the facts of its start to compare."""
    saved = read_checkpoint(checkpoint)
    start = saved.start or {}
    return relevant_options(saved.run) | flatten({key: start.get(key, "") for key in COMPARED})


def differences_table(differences: Mapping[str, Sequence[object]], paths: Sequence[str]) -> Table:
    """A row for each option, a column for each run."""
    rows = [[name, *map(format_value, values)] for name, values in differences.items()]
    return Table(columns=["differs in", *short_names(paths)], rows=rows)

"""--all-checkpoints: the checkpoints of runs, and the results that a file has of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolkit.checkpoints.save_folder import SaveFolder, read_manifest
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_output, read_bytes, write_output
from toolkit.common.json_files import JsonObject, sha256
from toolkit.config.command import MANIFEST
from toolkit.config.commands.checkpoints import CompletionsConfig, ValidateConfig
from toolkit.config.commands.reading_times import AcquisitionConfig
from toolkit.distributed import World
from toolkit.optim.update import resolve_precision
from toolkit.reporting.runs import list_measures, main_value, read_log
from toolkit.reporting.tables import Cell, Table


def list_checkpoints(c: ValidateConfig | CompletionsConfig | AcquisitionConfig) -> list[str]:
    """The paths to evaluate: with --all-checkpoints those of each save folder, oldest first."""
    paths = []
    for path in c.path:
        is_run = c.all_checkpoints and not (Path(path) / MANIFEST).exists()
        found = SaveFolder(Path(path)).checkpoints() if is_run else []
        paths += [str(it) for it in reversed(found)] or [path]
    return paths


class KnownResults:
    """The results in the file of --results-path, of checkpoints that are not evaluated again.

    What a checkpoint is asked decides its results: the data, and the options that they depend on.
    """

    def __init__(
        self, c: ValidateConfig | CompletionsConfig | AcquisitionConfig, world: World
    ) -> None:
        self.file, self.is_active = c.results_path or "", c.all_checkpoints
        self.is_main = world.is_main
        self.common: JsonObject = {
            "weights": c.weights,
            "precision": "fp32"
            if isinstance(c, AcquisitionConfig)
            else resolve_precision(c.precision, world.device),
        }
        records: list[JsonObject] = []
        if c.all_checkpoints and world.is_main and os.path.isfile(self.file):
            records = read_log(Path(self.file))
            if not read_bytes(Path(self.file)).endswith(b"\n"):  # of a writer that was killed
                lines = "".join(f"{json_files.dumps(it)}\n" for it in records)
                write_output(self.file, lines)
        self.records: list[JsonObject] = json_files.loads(
            world.all_gather(json_files.dumps(records))[0]
        )

    def describe(self, path: str, asked: JsonObject) -> JsonObject:
        """Updates and words of a checkpoint, and a digest of its weights and what it is asked."""
        if not self.is_active:
            return {}
        facts = read_manifest(Path(path))
        evaluation = sha256(json_files.dumps([facts.files, self.common, asked]))[:16]
        return {"update": facts.update, "words": facts.words, "evaluation": evaluation}

    def find(self, source: JsonObject, head: JsonObject) -> JsonObject | None:
        """The result with the source, such as the path, that has this head."""
        for record in self.records if self.is_active else ():
            if source.items() <= record.items():
                if record.get("evaluation") == head["evaluation"]:
                    return record
                raise ToolkitError(
                    f"{self.file} has a result of {' '.join(map(str, source.values()))} with other "
                    f"weights, data or options. Choose another --results-path."
                )
        return None

    def add(self, record: JsonObject) -> None:
        """Add a result to the file at once, as the next ones may take long."""
        if self.is_active and self.is_main and self.file:
            with open_output(self.file, append=True) as file:
                print(json_files.dumps(record), file=file, flush=True)


def tabulate(records: Sequence[JsonObject], *, paradigms: bool) -> Iterator[Table]:
    """For each run, the accuracy of each group of items by the words, or updates, seen."""
    runs: dict[str, list[JsonObject]] = {}
    for record in records:
        runs.setdefault(str(Path(record["path"]).parent), []).append(record)
    for run, found in runs.items():
        rows: dict[str, dict[str, Cell]] = {}
        unit = "updates" if any(record["words"] is None for record in found) else "words"
        for record in found:
            column = f"{record['words' if unit == 'words' else 'update']:,}"
            for it in list_measures(record):
                if paradigms or not it["part_of"]:
                    rows.setdefault(it["subset"], {})[column] = f"{main_value(it):.4f}"
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        yield Table(
            columns=(f"accuracy by {unit}", *columns),
            rows=[[name, *(row.get(it) for it in columns)] for name, row in rows.items()],
            caption=run,
            right_align=columns,
        )

"""Which checkpoints a run no longer needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from toolkit.checkpoints import manifest
from toolkit.checkpoints.load import STATE
from toolkit.checkpoints.save_folder import (
    BEST,
    LAST,
    CheckpointSaveError,
    SaveFolder,
    parse_update,
)
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_text
from toolkit.config.sections import CheckpointConfig
from toolkit.reporting.event_log import EventValue
from toolkit.reporting.sinks import Sink
from toolkit.training.callbacks.validation import Validation, is_improvement
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer


def find_superfluous(folders: Sequence[Path], c: CheckpointConfig, metric: str) -> list[Path]:
    """Of checkpoints, newest first, those that no option keeps.

    What cannot be read is not ours to judge, and stays.
    """
    ends: list[Path] = []
    others: list[Path] = []
    for folder in folders:
        reasons = read_save_reasons(folder)
        if reasons is not None:
            (ends if "epoch" in reasons else others).append(folder)
    kept = {*(ends[: c.keep_last_epochs] if c.keep_last_epochs else ends)}
    kept |= {*(others[: c.keep_interval_updates] if c.keep_interval_updates else others)}
    if pattern := c.keep_interval_updates_pattern:
        kept |= {folder for folder in others if parse_update(folder) % pattern == 0}
    if c.keep_best_checkpoints:
        kept |= {*find_best(folders, metric, c.keep_best_checkpoints)}
    return [folder for folder in (*ends, *others) if folder not in kept]


def read_save_reasons(folder: Path) -> Sequence[str] | None:
    """Why a checkpoint was saved; None where it does not say."""
    try:
        return list(manifest.read(folder).get("reasons", []))
    except (ToolkitError, OSError):
        return None


def find_best(folders: Sequence[Path], metric: str, count: int) -> list[Path]:
    """So many of the best by the validation that went before them; of equal ones the newer."""
    found: list[tuple[float, Path]] = []
    for folder in folders:
        value = read_metric(folder, metric)
        if value is not None:
            place = sum(not is_improvement(metric, value, other) for other, _ in found)
            found.insert(place, (value, folder))
    return [folder for _, folder in found[:count]]


def read_metric(folder: Path, metric: str) -> float | None:
    """The figure of the first validation subset at a checkpoint's update, where there is one."""
    try:
        validation: Any = json_files.loads(read_text(folder / STATE))["observers"]["validation"]
        figures: Any = next(iter(validation["latest"].values()), None)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    fresh = validation.get("validated_at") == parse_update(folder)
    value = figures.get(metric) if fresh and isinstance(figures, dict) else None
    return float(value) if isinstance(value, int | float) and value == value else None


log = logging.getLogger(__name__)


class Checkpointer:
    """Saves at each epoch's end, every so many updates, and where validation was best.

    A save that fails, after the tries that SaveFolder makes, is told, and training goes on to the
    next one: an hour without a checkpoint is better than none with the run. So many in a row end
    it, and so does the last one of a run. All ranks decide alike.
    """

    def __init__(
        self,
        trainer: Trainer,
        folder: SaveFolder,
        write_checkpoint: Callable[[int, int, list[str]], None],
        sink: Sink | None,
        *,
        config: CheckpointConfig,
        validation: Validation,
    ) -> None:
        self.sink = sink
        self.trainer, self.folder, self.write_checkpoint = trainer, folder, write_checkpoint
        self.config, self.validation = config, validation
        self.saved_at = self.saved_validation = -1
        """The update that was saved last, and the validation that its checkpoint knows of."""
        self.failures = 0
        """Saves in a row that could not be written."""

    def __call__(self, step: Step) -> None:
        interval = self.config.save_interval_updates
        reasons = [
            reason
            for reason, holds in {
                "epoch": step.ends_epoch,
                "interval": interval > 0 and step.update % interval == 0,
                "best": self.validation.improved_at == step.update,
            }.items()
            if holds
        ]
        if reasons:
            self.save(step.update, step.epoch, reasons)

    def save(self, update: int, epoch: int, reasons: list[str]) -> None:
        """Save, unless this update is, with its validation; then only point at it."""
        problem = self.try_save(update, epoch, reasons)
        self.failures = self.failures + 1 if problem else 0
        if not problem:
            return
        if self.failures >= self.config.max_failed_saves:
            raise CheckpointSaveError(f"{problem} That was failure {self.failures} in a row.")
        if self.sink:
            self.sink.write("save_failed", {"update": update, "epoch": epoch, "problem": problem})
            log.warning("%s Training goes on; the next save is tried again.", problem)

    def save_last(self, update: int, epoch: int, reason: str) -> None:
        """The last save of a run: NotSaved where it fails, since no other follows."""
        if problem := self.try_save(update, epoch, [reason]):
            raise CheckpointSaveError(problem)

    def try_save(self, update: int, epoch: int, reasons: list[str]) -> str:
        """What went wrong on any rank, empty where nothing did."""
        problem = ""
        try:
            self.save_and_link(update, epoch, reasons)
        except (CheckpointSaveError, OSError) as error:
            problem = str(error)
        problem = next(filter(None, self.trainer.world.all_gather(problem)), "")
        if not problem:
            self.mark_saved(update)  # on all ranks or none, since all take part in a save
        return problem

    def mark_saved(self, update: int) -> None:
        """Take note that what there is to save has been."""
        self.saved_at, self.saved_validation = update, self.validation.validated_at

    def save_and_link(self, update: int, epoch: int, reasons: list[str]) -> None:
        name = f"checkpoint_e{epoch}_u{update}"
        there, judged = (
            self.saved_at == update,
            self.saved_validation == self.validation.validated_at,
        )
        if there and not judged:  # a run that goes on from here must know how good it is
            reasons = [*(read_save_reasons(self.folder.path / name) or []), *reasons]
        if not (there and judged):
            begun = perf_counter()
            self.write_checkpoint(update, epoch, reasons)
            if self.sink:
                values: dict[str, EventValue] = {"update": update, "epoch": epoch, "path": name}
                self.sink.write("save", {**values, "seconds": perf_counter() - begun})
        if self.trainer.world.is_main:
            self.folder.link(LAST, name)
            if self.validation.improved_at == update:
                self.folder.link(BEST, name)
            kept = self.folder.checkpoints()
            self.folder.delete_checkpoints(
                find_superfluous(kept, self.config, self.validation.metric)
            )

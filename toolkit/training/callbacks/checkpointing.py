"""Checkpoints of a run: when they are saved, and all that resuming bit for bit requires."""

from __future__ import annotations

import logging
import math
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch

from toolkit import __version__
from toolkit.checkpoints.load import AVERAGE, MODEL, OPTIMIZER, STATE, write_config
from toolkit.checkpoints.save_folder import (
    BEST,
    LAST,
    REMEDY,
    CheckpointSaveError,
    SaveFolder,
    checkpoint_name,
    parse_update,
    read_manifest,
    try_delete,
)
from toolkit.checkpoints.tensor_files import (
    collect_state,
    link_shards,
    write_rank_shard,
    write_tensors,
)
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonObject, convert_fields, read_json, write_json
from toolkit.config.sections import CheckpointConfig, RunConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed.data_parallel import gather_on_main, is_sharded
from toolkit.models.interface import Sizes
from toolkit.reporting.runs import EventValue
from toolkit.reporting.sinks import Sink
from toolkit.training.callbacks.validation import (
    VALIDATION_STATE,
    ExponentialMovingAverage,
    Validation,
    lower_is_better,
)
from toolkit.training.step import Metrics, State, Stateful, Step, TrainingProgress
from toolkit.training.trainer import Trainer

log = logging.getLogger(__name__)
WORDS = "words"
"""The reason of checkpoints at --save-at-words, which always stay."""


def find_superfluous(
    folders: Sequence[Path], c: CheckpointConfig, metric: str, examples: str
) -> list[Path]:
    """The checkpoints that no option keeps; `folders` are newest first. Unreadable ones stay.

    The best ones are among those that were validated on these examples.
    """
    ends, others = list[Path](), list[Path]()
    for folder in folders:
        reasons = read_save_reasons(folder)
        if reasons is not None and WORDS not in reasons:
            (ends if "epoch" in reasons else others).append(folder)
    needed = {*ends[: c.keep_last_epochs or None], *others[: c.keep_interval_updates or None]}
    if pattern := c.keep_interval_updates_pattern:
        needed |= {folder for folder in others if parse_update(folder) % pattern == 0}
    if count := c.keep_best_checkpoints:  # of equally good ones the newer
        values = {folder: read_metric(folder, metric, examples) for folder in folders}
        measured = {folder: value for folder, value in values.items() if value is not None}
        rank, descends = measured.__getitem__, not lower_is_better(metric)
        needed |= {*sorted(measured, key=rank, reverse=descends)[:count]}
    return [folder for folder in (*ends, *others) if folder not in needed]


def read_save_reasons(folder: Path) -> Sequence[str] | None:
    """Why a checkpoint was saved; None if it does not say."""
    try:
        return read_manifest(folder).reasons
    except (ToolkitError, OSError):
        return None


def read_metric(folder: Path, metric: str, examples: str | None = None) -> float | None:
    """A metric of the first validation split at a checkpoint's update; None if there is none.

    With the fingerprint of `examples`, also None if the validation had others.
    """
    try:
        state = read_state(folder)
    except ToolkitError:
        return None
    validation = state.validation if state else None
    if (
        validation is None
        or validation["validated_at"] != parse_update(folder)
        or (examples not in (None, validation["examples"]))
    ):
        return None
    first: Metrics = next(iter(validation["latest"].values()), {})
    value = first.get(metric, math.nan)
    return None if math.isnan(value) else float(value)


class Checkpointer:
    """Saves at the end of each epoch, every N updates, and when validation has improved.

    A save that fails, after SaveFolder's attempts, is logged and training continues. The run stops
    after `max_failed_saves` consecutive failures, or if its last save fails. All ranks agree.
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
        self.config, self.validation, self.word_marks = config, validation, config.word_marks
        self.saved_at = self.saved_validation = -1
        """The update that was saved last, and the update of the validation in its checkpoint."""
        self.failures = 0
        """Consecutive saves that could not be written."""

    def __call__(self, step: Step) -> None:
        interval, words = self.config.save_interval_updates, step.progress.words or 0
        reached = (bisect(self.word_marks, it) for it in (step.words_before or 0, words))
        conditions = {
            "epoch": step.ends_epoch,
            "interval": interval > 0 and step.update % interval == 0,
            "best": self.validation.improved_at == step.update,
            WORDS: len({*reached}) > 1,
        }
        if reasons := [reason for reason, holds in conditions.items() if holds]:
            self.save(step.update, step.epoch, reasons)

    def save(self, update: int, epoch: int, reasons: list[str]) -> None:
        """Save unless this update is saved with its validation, and update the links."""
        self.trainer.wait_for_device()
        problem = self.try_save(update, epoch, reasons)
        self.failures = self.failures + 1 if problem else 0
        if not problem:
            return
        if self.failures >= self.config.max_failed_saves:
            raise CheckpointSaveError(f"{problem} That was failure {self.failures} in a row.")
        if self.sink:
            self.sink.write("save_failed", {"update": update, "epoch": epoch, "problem": problem})
            log.warning("%s Training continues; the next save will try again.", problem)

    def save_last(self, update: int, epoch: int, reason: str) -> None:
        """The last save of a run, which raises CheckpointSaveError if it fails."""
        if problem := self.try_save(update, epoch, [reason]):
            raise CheckpointSaveError(problem)

    def try_save(self, update: int, epoch: int, reasons: list[str]) -> str:
        """The problem of the first rank that has one; empty if the save succeeded."""
        problem = ""
        try:
            self.save_and_link(update, epoch, reasons)
        except (CheckpointSaveError, OSError) as error:
            problem = str(error)
        problem = self.trainer.world.first_text(problem)
        if not problem:
            self.mark_saved(update)  # on all ranks or none, since all take part in a save
        return problem

    def mark_saved(self, update: int) -> None:
        """Record that this update is saved with its validation."""
        self.saved_at, self.saved_validation = update, self.validation.validated_at

    def save_and_link(self, update: int, epoch: int, reasons: list[str]) -> None:
        name = checkpoint_name(epoch, update)
        is_saved = self.saved_at == update
        has_validation = self.saved_validation == self.validation.validated_at
        if is_saved and not has_validation:  # a resumed run needs the metrics
            reasons = [*(read_save_reasons(self.folder.path / name) or []), *reasons]
        if not (is_saved and has_validation):
            started = perf_counter()
            self.write_checkpoint(update, epoch, reasons)
            if self.sink:
                values: dict[str, EventValue] = {"update": update, "epoch": epoch, "path": name}
                values |= self.trainer.progress.clock
                self.sink.write("save", {**values, "seconds": perf_counter() - started})
        if self.trainer.world.is_main:
            self.folder.link(LAST, name)
            if self.validation.improved_at == update:
                self.folder.link(BEST, name)
            folders, watched = self.folder.checkpoints(), self.validation
            self.folder.delete_checkpoints(
                find_superfluous(folders, self.config, watched.metric, watched.examples)
            )


def write_checkpoint(
    save_folder: SaveFolder,
    trainer: Trainer,
    stateful: Mapping[str, Stateful],
    update: int,
    epoch: int,
    reasons: list[str],
    *,
    config: RunConfig,
    sizes: Sizes,
    tokenizer: Tokenizer,
    data: Mapping[str, str],
    base: Mapping[str, str],
    ema: ExponentialMovingAverage | None = None,
) -> None:
    """Write a checkpoint; all ranks must call it, and the main rank writes all but shards."""
    world, learner = trainer.world, trainer.learner
    state = describe_progress(trainer, stateful, data)
    name, average = checkpoint_name(epoch, update), ema.state_dict() if ema else {}
    weights, moments = learner.state_dict(), collect_state(trainer.optimizer, learner)
    if base:  # it has the others
        frozen = {n for n, p in learner.named_parameters() if not p.requires_grad}
        weights, average = (
            {n: t for n, t in state.items() if n not in frozen} for state in (weights, average)
        )
    shared = None
    if is_sharded(learner):
        shared = write_rank_shard(save_folder, name, {**weights, **moments}, world)
        weights = gather_on_main(weights, world)
    if not world.is_main:
        return

    def fill(folder: Path) -> None:
        write_tensors(folder / MODEL, weights)
        if shared:
            link_shards(shared, folder, world.size)
        else:
            write_tensors(folder / OPTIMIZER, moments)
        if average:
            write_tensors(folder / AVERAGE, average)
        write_json(folder / STATE, state, end="", indent=1, ensure_ascii=False)
        write_config(folder, config, sizes)
        tokenizer.save(folder)

    facts = {"update": update, "epoch": epoch, "reasons": reasons, **trainer.progress.clock}
    facts |= {"base": dict(base)} if base else {}
    versions = {"toolkit": __version__, "torch": torch.__version__}
    save_folder.write(name, fill, {**facts, "versions": versions})
    if shared:
        try_delete(shared)


def describe_progress(
    trainer: Trainer, stateful: Mapping[str, Stateful], data: Mapping[str, str]
) -> dict[str, object]:
    """What state.json says; some of it is summed over ranks."""
    scale = trainer.precision.loss_scale
    return {
        "progress": asdict(trainer.progress),
        "callbacks": {name: each.state() for name, each in stateful.items()},
        "loss_scale": scale.state() if scale else None,
        "precision": trainer.precision.name,
        "ranks": trainer.world.size,
        "data": dict(data),
    }


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """The contents of state.json."""

    progress: TrainingProgress
    callbacks: dict[str, State]
    """Name -> state of a callback."""
    loss_scale: dict[str, float] | None = None
    precision: str
    ranks: Count = 1
    data: dict[str, str]
    """Fingerprints of the `examples` of the run, and of their `order` in an epoch."""

    @property
    def validation(self) -> JsonObject | None:
        """The validation's state; None if the run has none."""
        state = self.callbacks.get("validation")
        return None if state is None else convert_fields(state, VALIDATION_STATE)

    def __post_init__(self) -> None:
        best = (self.validation or {}).get("best")
        parts: Sequence[tuple[object, JsonObject]] = (
            (best, {"metric": str, "value": float, "update": Count}),
            (self.loss_scale, {"scale": float, "good": float}),
            (self.data, {"examples": str, "order": str}),
        )
        for value, kinds in parts:
            if value is not None:
                convert_fields(value, kinds)


def require_state(folder: Path) -> SavedState:
    """The state in a verified checkpoint of a run."""
    return read_json(folder / STATE, SavedState, REMEDY, non_finite=True)


def read_state(folder: Path) -> SavedState | None:
    """The state in a verified checkpoint; None for an average or an import."""
    return require_state(folder) if (folder / STATE).exists() else None

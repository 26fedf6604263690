"""When checkpoints are saved and linked, which are kept, and what a failed save does: little."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

from toolkit.config.sections import CheckpointConfig
from toolkit.metrics.records import Value
from toolkit.metrics.sinks import Sink
from toolkit.training.pruning import reasons_of, superfluous
from toolkit.training.save_folder import BEST, LAST, NotSaved, SaveFolder
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer
from toolkit.training.validation import Validation

log = logging.getLogger(__name__)


class Saving:
    """Saves at each epoch's end, every so many updates, and where validation was best.

    A save that fails, after the tries that SaveFolder makes, is told, and training goes on to the
    next one: an hour without a checkpoint is better than none with the run. So many in a row end
    it, and so does the last one of a run. All ranks decide alike.
    """

    def __init__(
        self,
        trainer: Trainer,
        folder: SaveFolder,
        save: Callable[[int, int, list[str]], None],
        sink: Sink | None,
        *,
        config: CheckpointConfig,
        validation: Validation,
    ) -> None:
        self.sink = sink
        self.trainer, self.folder, self.write = trainer, folder, save
        self.config, self.validation = config, validation
        self.saved_at = self.judged_at = -1
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
        problem = self.attempt(update, epoch, reasons)
        self.failures = self.failures + 1 if problem else 0
        if not problem:
            return
        if self.failures >= self.config.failed_saves:
            raise NotSaved(f"{problem} That was failure {self.failures} in a row.")
        if self.sink:
            self.sink.write("save_failed", {"update": update, "epoch": epoch, "problem": problem})
            log.warning("%s Training goes on; the next save is tried again.", problem)

    def finish(self, update: int, epoch: int, reason: str) -> None:
        """The last save of a run: NotSaved where it fails, since no other follows."""
        if problem := self.attempt(update, epoch, [reason]):
            raise NotSaved(problem)

    def attempt(self, update: int, epoch: int, reasons: list[str]) -> str:
        """What went wrong on any rank, empty where nothing did."""
        problem = ""
        try:
            self.put(update, epoch, reasons)
        except (NotSaved, OSError) as error:
            problem = str(error)
        problem = next(filter(None, self.trainer.world.gather(problem)), "")
        if not problem:
            self.saved(update)  # on all ranks or none, since all take part in a save
        return problem

    def saved(self, update: int) -> None:
        """Take note that what there is to save has been."""
        self.saved_at, self.judged_at = update, self.validation.validated_at

    def put(self, update: int, epoch: int, reasons: list[str]) -> None:
        name = f"checkpoint_e{epoch}_u{update}"
        there, judged = self.saved_at == update, self.judged_at == self.validation.validated_at
        if there and not judged:  # a run that goes on from here must know how good it is
            reasons = [*(reasons_of(self.folder.path / name) or []), *reasons]
        if not (there and judged):
            begun = perf_counter()
            self.write(update, epoch, reasons)
            if self.sink:
                values: dict[str, Value] = {"update": update, "epoch": epoch, "path": name}
                self.sink.write("save", {**values, "seconds": perf_counter() - begun})
        if self.trainer.world.first:
            self.folder.link(LAST, name)
            if self.validation.improved_at == update:
                self.folder.link(BEST, name)
            kept = self.folder.checkpoints()
            self.folder.drop(superfluous(kept, self.config, self.validation.metric))

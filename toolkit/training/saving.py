"""When checkpoints are saved, linked and pruned."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from toolkit.config.sections import CheckpointConfig
from toolkit.metrics.records import Value
from toolkit.metrics.sinks import Sink
from toolkit.training.save_folder import BEST, LAST, SaveFolder
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer
from toolkit.training.validation import Validation


class Saving:
    """Saves at each epoch's end, every so many updates, and where validation was best."""

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
        self.saved_at = -1

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
        """Save, unless this update is saved already; then only point at it."""
        name = f"checkpoint_e{epoch}_u{update}"
        if self.saved_at != update:
            begun = perf_counter()
            self.write(update, epoch, reasons)
            self.saved_at = update
            if self.sink:
                values: dict[str, Value] = {"update": update, "epoch": epoch, "path": name}
                self.sink.write("save", {**values, "seconds": perf_counter() - begun})
        if not self.trainer.world.first:
            return
        self.folder.link(LAST, name)
        if self.validation.improved_at == update:
            self.folder.link(BEST, name)
        self.folder.prune(self.config.keep_last_epochs, self.config.keep_interval_updates)

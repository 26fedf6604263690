"""What watches the updates: the log, validation with the best and patience, and the checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import CheckpointConfig
from toolkit.metrics.records import Value
from toolkit.metrics.sinks import Sink
from toolkit.training.meters import Meters
from toolkit.training.save_folder import BEST, LAST, SaveFolder
from toolkit.training.speed import operations, peak_memory_gib, peak_rate
from toolkit.training.step import Figures, State, Step
from toolkit.training.trainer import Trainer


class Log:
    """Reports the training figures every so many updates."""

    def __init__(
        self, trainer: Trainer, sink: Sink | None, interval: int, total_updates: int
    ) -> None:
        self.trainer, self.sink, self.interval = trainer, sink, interval
        self.total = total_updates
        self.meters = Meters()
        self.seconds_before = 0.0
        """Training time of the runs that this one goes on from."""
        self.reported_at = 0.0, 0.0
        """The trainer's busy and waiting time at the last report."""
        self.latest: Figures = {}
        self.operations_per_token: float | None = None
        self.peak: float | None = None

    def __call__(self, step: Step) -> None:
        self.meters.add(step)
        due = step.update % self.interval == 0
        if due or step.update == self.total:
            self.report(step)
        if due:
            self.meters.reset()
            self.reported_at = self.trainer.busy_seconds, self.trainer.waited_seconds

    def report(self, step: Step) -> None:
        """All ranks sum up, the first one writes."""
        trainer = self.trainer
        sums = self.meters.read().over_ranks(trainer.world)
        values: Figures = sums.means(trainer.learner.task.coefficients)
        busy, waited = self.since_report
        seconds = max(busy + waited, 1e-9)
        values |= {
            "tokens_per_second": sums.tokens / seconds,
            "updates_per_second": sums.updates / seconds,
            "lr": step.learning_rate,
            "data_wait_rate": waited / seconds,
            "peak_memory_gib": peak_memory_gib(trainer.world.device),
            "seconds": self.seconds,
        }
        if trainer.precision.loss_scale:
            values["loss_scale"] = float(trainer.precision.loss_scale.scale)
        if trainer.world.first:
            values |= self.utilisation(step, values["tokens_per_second"])
        self.latest = {"update": step.update, "epoch": step.epoch, **values}
        if self.sink:
            self.sink.write("train", self.latest)

    @property
    def since_report(self) -> tuple[float, float]:
        """Time spent training and waiting for data since the last report."""
        busy, waited = self.reported_at
        return self.trainer.busy_seconds - busy, self.trainer.waited_seconds - waited

    @property
    def seconds(self) -> float:
        return self.seconds_before + self.trainer.busy_seconds + self.trainer.waited_seconds

    def utilisation(self, step: Step, tokens_per_second: float) -> Figures:
        """Operations of the model as a share of what the machine could do (MFU)."""
        trainer = self.trainer
        if self.operations_per_token is None:
            batch = max(step.micro_batches, key=lambda batch: batch.tokens)
            with trainer.precision.autocast():
                found = operations(trainer.learner, batch, trainer.world.device)
            self.operations_per_token = found / max(1, batch.tokens)
            self.peak = peak_rate(trainer.world.device, trainer.precision.name)
        if not self.peak:
            return {}
        rate = self.operations_per_token * tokens_per_second
        return {"mfu": rate / (self.peak * trainer.world.size)}

    def state(self) -> State:
        meters = self.meters.state(self.trainer.world)
        return {
            "meters": meters,
            "since_report_seconds": list(self.since_report),
            "seconds": self.seconds,
            "latest": self.latest,
        }

    def restore(self, state: State) -> None:
        self.meters.restore(state["meters"], self.trainer.world)
        busy, waited = state["since_report_seconds"]
        self.reported_at = self.trainer.busy_seconds - busy, self.trainer.waited_seconds - waited
        self.seconds_before, self.latest = state["seconds"], state["latest"]


class Validation:
    """Validates at each epoch's end and every so many updates; knows the best, ends when stale."""

    def __init__(
        self,
        trainer: Trainer,
        subsets: Mapping[str, Callable[[], Figures]],
        sink: Sink | None,
        *,
        interval: int = 0,
        patience: int = 0,
        metric: str = "loss",
        examples: str = "",
    ) -> None:
        self.trainer, self.subsets, self.sink = trainer, subsets, sink
        self.interval, self.patience, self.metric = interval, patience, metric
        self.examples = examples
        """Fingerprint of those that decide: figures of others are no measure for them."""
        self.best: dict[str, Any] | None = None
        self.stale = 0
        """Validations in a row that did not improve the best."""
        self.validated_at = -1
        self.latest: dict[str, Figures] = {}

    def __call__(self, step: Step) -> None:
        if step.ends_epoch or (self.interval and step.update % self.interval == 0):
            self.validate(step.update, step.epoch)

    def validate(self, update: int, epoch: int) -> None:
        """All subsets; the first one decides about best and patience."""
        if not self.subsets or self.validated_at == update:
            return
        begun = perf_counter()
        for subset, figures in self.subsets.items():
            self.latest[subset] = figures()
            if self.sink:
                seconds = perf_counter() - begun
                where: dict[str, Value] = {"update": update, "epoch": epoch, "subset": subset}
                self.sink.write("valid", {**where, **self.latest[subset], "seconds": seconds})
        self.validated_at = update
        self.judge(self.latest[next(iter(self.subsets))], update)

    def judge(self, figures: Figures, update: int) -> None:
        if self.metric not in figures:
            raise ToolkitError(
                f"training.best_metric must be a figure of validation, but is {self.metric!r}. "
                f"Known: {', '.join(figures)}."
            )
        value = figures[self.metric]
        if improves(self.metric, value, self.best["value"] if self.best else None):
            self.best = {"metric": self.metric, "value": value, "update": update}
            self.stale = 0
            return
        self.stale += 1
        if self.patience and self.stale >= self.patience:
            self.trainer.finish()

    @property
    def improved_at(self) -> int | None:
        return self.best["update"] if self.best else None

    def state(self) -> State:
        return {
            "best": self.best,
            "examples": self.examples,
            "stale": self.stale,
            "validated_at": self.validated_at,
            "latest": self.latest,
        }

    def restore(self, state: State) -> None:
        """Another metric, or other examples to judge by, start afresh."""
        same = state["best"] is None or state["best"]["metric"] == self.metric
        if same and state["examples"] == self.examples:
            self.best, self.stale = state["best"], state["stale"]
            self.validated_at, self.latest = state["validated_at"], state["latest"]


def improves(metric: str, value: float, best: float | None) -> bool:
    """Losses and perplexities are better lower, everything else higher; NaN is never better."""
    if math.isnan(value):
        return False
    if best is None:
        return True
    lower = metric == "ppl" or metric == "loss" or metric.endswith("_loss")
    return value < best if lower else value > best


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

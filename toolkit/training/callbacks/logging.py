"""Training metrics, logged every N updates."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.common.json_files import convert
from toolkit.reporting.sinks import Sink
from toolkit.training.callbacks.meters import Meters
from toolkit.training.callbacks.throughput import (
    peak_flops_per_second,
    peak_memory_gib,
    update_flops,
)
from toolkit.training.device import synchronize
from toolkit.training.step import Metrics, State, Step
from toolkit.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class LoggerState:
    """State of a MetricsLogger in a checkpoint."""

    meters: State
    since_report_seconds: tuple[float, float]
    seconds: float
    latest: Metrics


class MetricsLogger:
    """Logs the training metrics every N updates and after the last one."""

    def __init__(
        self, trainer: Trainer, sink: Sink | None, interval: int, total_updates: int
    ) -> None:
        self.trainer, self.sink, self.interval = trainer, sink, interval
        self.total_updates = total_updates
        self.meters = Meters()
        self.seconds_before = 0.0
        """Training time before this run resumed."""
        self.reported_at = 0.0, 0.0
        """The trainer's busy and waiting time at the latest report."""
        self.latest: Metrics = {}
        self.flops_per_token: float | None = None
        self.peak_flops: float | None = None

    def __call__(self, step: Step) -> None:
        self.meters.add(step)
        due = step.update % self.interval == 0
        if due or step.update == self.total_updates:
            self.report(step)
        if due:
            self.meters.reset()
            self.reported_at = self.trainer.busy_seconds, self.trainer.waited_seconds

    def report(self, step: Step) -> None:
        """Sum over all ranks and write; all ranks must call it."""
        trainer = self.trainer
        trainer.wait_for_device()
        sums = self.meters.read().sum_over_ranks(trainer.world)
        task = trainer.learner.task
        values = sums.compute(task.coefficients, with_perplexity=task.reports_perplexity)
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
        utilization = self.utilization(step, values["tokens_per_second"])  # on all ranks: FSDP
        if trainer.world.is_main:
            values |= utilization
        self.latest = {"update": step.update, "epoch": step.epoch, **values}
        if self.sink:
            self.sink.write("train", self.latest)

    @property
    def since_report(self) -> tuple[float, float]:
        """Time spent training and waiting for data since the latest report."""
        busy, waited = self.reported_at
        return self.trainer.busy_seconds - busy, self.trainer.waited_seconds - waited

    @property
    def seconds(self) -> float:
        return self.seconds_before + self.trainer.busy_seconds + self.trainer.waited_seconds

    def utilization(self, step: Step, tokens_per_second: float) -> Metrics:
        """Model FLOPs utilization (MFU): the model's FLOPs as a fraction of the peak."""
        trainer = self.trainer
        if self.flops_per_token is None:
            self.flops_per_token = self.count_flops_per_token(step)
            self.peak_flops = peak_flops_per_second(trainer.world.device, trainer.precision.name)
        if not self.peak_flops:
            return {}
        rate = self.flops_per_token * tokens_per_second
        return {"mfu": rate / (self.peak_flops * trainer.world.size)}

    def count_flops_per_token(self, step: Step) -> float:
        """Those of the step's largest micro-batch, forward and backward."""
        trainer = self.trainer
        batch = max(step.micro_batches, key=lambda batch: batch.tokens)
        with trainer.precision.autocast():
            flops = update_flops(trainer.learner, batch, trainer.world.device)
        synchronize(trainer.world.device)  # before the next update is timed
        return flops / max(1, batch.tokens)

    def state(self) -> State:
        return {
            "meters": self.meters.state(self.trainer.world),
            "since_report_seconds": list(self.since_report),
            "seconds": self.seconds,
            "latest": self.latest,
        }

    def restore(self, state: State) -> None:
        saved = convert(state, LoggerState)
        self.meters.restore(saved.meters, self.trainer.world)
        busy, waited = saved.since_report_seconds
        self.reported_at = self.trainer.busy_seconds - busy, self.trainer.waited_seconds - waited
        self.seconds_before, self.latest = saved.seconds, saved.latest

"""Training metrics between two reports: losses, throughput and the use of the hardware."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from toolkit.common.json_files import JsonObject, convert, convert_fields
from toolkit.distributed import World
from toolkit.distributed.world import synchronize
from toolkit.reporting.sinks import Sink
from toolkit.tasks.examples import Batch, to_device
from toolkit.tasks.learner import Learner
from toolkit.training.flop_counter import FlopCounter
from toolkit.training.step import Metrics, State, Step
from toolkit.training.trainer import Trainer

LOGGER_STATE = {
    "meters": JsonObject,
    "since_report_seconds": tuple[float, float],
    "seconds": float,
    "latest": Metrics,
}
"""State of a MetricsLogger in a checkpoint: name -> its type."""
EARLY = (1, 2, 5, 10, 20, 50)
"""Updates of this start that the console shows before the first report."""
HOST_BOUND = 0.9
"""Fraction of an update's time that launching it takes from which on the CPU limits the speed."""


class MetricsLogger:
    """Logs the training metrics every N updates and after the last one; the console also shows the
    first updates, so that one sees that the run works.
    """

    def __init__(
        self,
        trainer: Trainer,
        sink: Sink | None,
        interval: int,
        total_updates: int,
        console: Sink | None = None,
        print_message: Callable[[str], None] = print,
    ) -> None:
        self.trainer, self.sink, self.interval = trainer, sink, interval
        self.print_message = print_message
        self.total_updates, self.console, self.updates = total_updates, console, 0
        self.meters = Meters()
        self.seconds_before = 0.0
        """Training time before this run resumed."""
        self.reported_at = 0.0, 0.0
        """The trainer's busy and waiting time at the latest report."""
        self.latest: Metrics = {}
        self.flops_per_token: float | None = None
        self.peak_flops: float | None = None
        self.launched_from: float | None = None
        """The trainer's busy time before an update that finds a GPU idle."""
        self.launch_rates: list[float] = []

    def __call__(self, step: Step) -> None:
        if self.launched_from is not None:
            self.measure_launch(self.launched_from)
        self.meters.add(step)
        self.updates += 1
        due = step.update % self.interval == 0
        if due or step.update == self.total_updates:
            self.report(step)
        elif self.updates in EARLY and self.updates < self.interval:
            values = self.measure_training(step)
            if self.console:
                self.console.write("train", values)
        if due:
            self.meters = Meters()
            self.reported_at = self.trainer.busy_seconds, self.trainer.waited_seconds
            if self.trainer.world.device.type == "cuda":
                self.launched_from = self.trainer.busy_seconds

    def measure_launch(self, start: float) -> None:
        """Compare the time of launching the latest update with that of finishing it.

        A GPU that has nothing left to do once its last kernel is launched has waited for the CPU.
        """
        trainer, self.launched_from = self.trainer, None
        launched = trainer.busy_seconds - start
        trainer.wait_for_device()
        self.launch_rates.append(launched / max(1e-9, trainer.busy_seconds - start))
        second = len(self.launch_rates) == 2 and trainer.world.is_main
        if second and min(self.launch_rates) > HOST_BOUND:
            self.print_message(
                f"the GPU waits for the CPU, which takes {self.launch_rates[-1]:.0%} of an "
                f"update's time to launch it: raise --max-tokens, or use --cuda-graph auto"
            )

    def report(self, step: Step) -> None:
        """Write the metrics; all ranks must call it."""
        values, world = self.measure_training(step), self.trainer.world
        utilization = self.utilization(step, values["tokens_per_second"])  # on all ranks: FSDP
        self.latest = values | utilization if world.is_main else values
        if self.sink:
            self.sink.write("train", self.latest)

    def measure_training(self, step: Step) -> Metrics:
        """The metrics since the last report, over all ranks; all must call it."""
        trainer = self.trainer
        trainer.wait_for_device()
        sums = self.meters.sum_over_ranks(trainer.world)
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
        if self.launch_rates:
            values["launch_rate"] = self.launch_rates[-1]
        if trainer.precision.loss_scale:
            values["loss_scale"] = float(trainer.precision.loss_scale.scale)
        return {"update": step.update, "epoch": step.epoch, **step.progress.clock, **values}

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
            batch = max(step.micro_batches, key=lambda batch: batch.tokens)
            with trainer.precision.autocast():
                flops = update_flops(trainer.learner, batch, trainer.world.device)
            synchronize(trainer.world.device)  # before the next update is timed
            self.flops_per_token = flops / max(1, batch.tokens)
            self.peak_flops = peak_flops_per_second(trainer.world.device, trainer.precision.name)
        if not self.peak_flops:
            return {}
        rate = self.flops_per_token * tokens_per_second
        return {"mfu": rate / (self.peak_flops * trainer.world.size)}

    def state(self) -> State:
        return {
            "meters": self.meters.state(self.trainer.world),
            "since_report_seconds": list(self.since_report),
            "seconds": self.seconds,
            "latest": self.latest,
        }

    def restore(self, state: State) -> None:
        saved = convert_fields(state, LOGGER_STATE)
        self.meters.restore(saved["meters"], self.trainer.world)
        busy, waited = saved["since_report_seconds"]
        self.reported_at = self.trainer.busy_seconds - busy, self.trainer.waited_seconds - waited
        self.seconds_before, self.latest = saved["seconds"], saved["latest"]


READ_INTERVAL = 256
"""Updates after which pending tensors are read even without a report."""


@dataclass(kw_only=True)
class Meters:
    """Sums over the updates since the latest report; adding one does not wait for the device.

    `losses` and `tokens` are this rank's, the others hold for all ranks.
    """

    losses: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    tokens: int = 0
    updates: int = 0
    norms: float = 0.0
    clipped: float = 0.0
    skipped: float = 0.0
    pending: list[Any] = field(default_factory=list, init=False)
    """Tokens, weights and tensors of updates that were not read yet."""

    def add(self, step: Step) -> None:
        weights = {name: step.weights[name] for name in step.losses}
        self.pending.append((step.tokens, weights, [*step.outcome, *step.losses.values()]))
        if len(self.pending) >= READ_INTERVAL:
            self.read()

    def read(self) -> Meters:
        """The sums so far, read in one transfer; of a skipped update, only that it was."""
        pending, self.pending = self.pending, []
        tensors = [tensor.double() for *_, each in pending for tensor in each]
        numbers = iter(torch.stack(tensors).tolist() if tensors else [])
        for tokens, weights, each in pending:
            norm, clipped, skipped, *losses = (next(numbers) for _ in each)
            self.updates += 1
            self.tokens += tokens
            self.skipped += skipped
            if skipped:
                continue
            self.norms += norm
            self.clipped += clipped
            for (name, weight), loss in zip(weights.items(), losses, strict=True):
                self.losses[name] = self.losses.get(name, 0.0) + loss
                self.weights[name] = self.weights.get(name, 0.0) + weight
        return self

    def sum_over_ranks(self, world: World) -> Meters:
        """The sums over all ranks; all ranks must call it."""
        mine = json.dumps({"losses": self.read().losses, "tokens": self.tokens})
        parts = [json.loads(text) for text in world.all_gather(mine)]
        losses = {o: sum(part["losses"].get(o, 0.0) for part in parts) for o in self.losses}
        return replace(self, losses=losses, tokens=sum(part["tokens"] for part in parts))

    def state(self, world: World) -> State:
        """The sums over all ranks, as the main rank takes them over in `restore`."""
        sums = vars(self.sum_over_ranks(world))
        return {name: value for name, value in sums.items() if name != "pending"}

    def restore(self, state: State, world: World) -> None:
        vars(self).update(vars(convert(state, Meters)))
        if not world.is_main:
            self.losses, self.tokens = dict.fromkeys(self.losses, 0.0), 0

    def compute(
        self, coefficients: Mapping[str, float], *, with_perplexity: bool = True
    ) -> Metrics:
        """loss, <objective>_loss, ppl = exp(loss of the first objective), norm, clipping.

        Losses are missing if every update was skipped or had nothing to predict for an objective.
        """
        means = {o: self.losses[o] / w for o, w in self.weights.items() if w}
        taken = max(1.0, self.updates - self.skipped)
        return {
            **loss_metrics(means, coefficients, with_perplexity=with_perplexity),
            "gradient_norm": self.norms / taken,
            "clip_rate": self.clipped / taken,
            "skipped_updates": self.skipped,
        }


def loss_metrics(
    means: Mapping[str, float], coefficients: Mapping[str, float], *, with_perplexity: bool = True
) -> Metrics:
    """The weighted loss, its parts, and the perplexity of the first objective, from the means of
    the objectives with predictions. Without some of them the loss would not be comparable.
    """
    metrics: Metrics = {}
    if all(o in means for o, c in coefficients.items() if c):
        metrics["loss"] = sum(coefficients[o] * mean for o, mean in means.items())
    metrics |= {f"{o}_loss": means[o] for o in coefficients if o in means}
    if with_perplexity and (first := next(iter(coefficients))) in means:
        metrics["ppl"] = perplexity(means[first])
    return metrics


def perplexity(mean_loss: float) -> float:
    """exp(-mean log p), bounded so that it does not overflow."""
    return math.nan if math.isnan(mean_loss) else math.exp(min(mean_loss, 700.0))


# Dense multiply rates in operations per second, from the manufacturer's data sheets.
PEAK_FLOPS: dict[str, dict[str, float]] = {
    "H200": {"bf16": 989e12, "fp16": 989e12, "tf32": 494e12, "fp32": 67e12},
    "H100": {"bf16": 989e12, "fp16": 989e12, "tf32": 494e12, "fp32": 67e12},
    "A100": {"bf16": 312e12, "fp16": 312e12, "tf32": 156e12, "fp32": 19.5e12},
    "L40S": {"bf16": 362e12, "fp16": 362e12, "tf32": 183e12, "fp32": 91.6e12},
    "A10": {"bf16": 125e12, "fp16": 125e12, "tf32": 62.5e12, "fp32": 31.2e12},
    "L4": {"bf16": 121e12, "fp16": 121e12, "tf32": 60e12, "fp32": 30.3e12},
    "V100": {"fp16": 125e12, "fp32": 15.7e12},
    "T4": {"fp16": 65e12, "fp32": 8.1e12},
}


def peak_flops_per_second(device: torch.device, precision: str) -> float | None:
    """FLOP/s of large matrix products of a GPU in the table."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return next((peaks.get(precision) for key, peaks in PEAK_FLOPS.items() if key in name), None)


def update_flops(learner: Learner, batch: Batch, device: torch.device) -> float:
    """FLOPs of an update with this batch, of matrix products and convolutions only: three times
    those of its forward pass, since the backward pass multiplies by the weights and by the inputs
    (Kaplan et al. 2020, section 2.1). With frozen parameters it is what they leave of it.
    """
    has_frozen = not all(p.requires_grad for p in learner.parameters())
    with torch.no_grad(), FlopCounter() as counter:
        learner(to_device(batch, device, packs=learner.encoder.uses_packing))
    return float(counter.total + (counter.backward if has_frozen else 2 * counter.total))


def peak_memory_gib(device: torch.device) -> float:
    """Peak memory of this process, on its GPU or in RAM; NaN where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    unit = 1 if sys.platform == "darwin" else 1024
    with suppress(ImportError):  # Windows
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    return math.nan

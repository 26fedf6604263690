"""Reports of updates that were skipped or made in parts, and of ranks that differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from toolkit.common.errors import ToolkitError, join_first
from toolkit.data.loading.loader import first_index_of_rank
from toolkit.distributed import World
from toolkit.distributed.data_parallel import is_sharded, is_sharded_tensor, to_local
from toolkit.reporting.runs import EventValue
from toolkit.reporting.sinks import Sink
from toolkit.tasks.examples import Batch
from toolkit.training.gradient import GradientAccumulator
from toolkit.training.step import Step, collect_tensors
from toolkit.training.trainer import Trainer

MAX_STREAK = 10
"""Consecutive updates without a finite gradient after which training ends."""
MIN_LOSS_SCALE = 1e-4
"""fp16 loss scale below which training ends, as in fairseq."""


def is_finite(value: object) -> bool:
    """Whether all numbers on this rank are finite."""
    return all(
        bool(to_local(t).isfinite().all()) for t in collect_tensors(value) if t.is_floating_point()
    )


def check_into(findings: list[str], what: str, value: object) -> None:
    """Add `what` to the findings if its value is not finite."""
    if not is_finite(value):
        findings.append(what)


def find_first_non_finite(
    accumulator: GradientAccumulator, batch: Batch, weights: Mapping[str, float]
) -> str:
    """The first layer of a pass whose output, or output gradient, is not finite."""
    learner, scale = accumulator.learner, accumulator.precision.loss_scale
    findings: list[str] = []

    def watch(what: str, module: nn.Module, inputs: object, outputs: object) -> None:
        check_into(findings, f"the output of {what}", outputs)
        at = f"the gradient at the output of {what}"
        for output in collect_tensors(outputs):
            if output.requires_grad:
                output.register_hook(partial(check_into, findings, at))

    hooks: list[RemovableHandle] = []
    for name, module in [*learner.named_modules(), ("the criterion", accumulator.criterion)]:
        what = f"{name or 'the learner'} ({type(module).__name__})"
        hooks.append(module.register_forward_hook(partial(watch, what)))
    named = [(name, p) for name, p in learner.named_parameters() if p.requires_grad]
    for name, p in named:
        hooks.append(p.register_hook(partial(check_into, findings, f"the gradient of {name}")))
    try:
        factors = accumulator.loss_factors(weights)
        loss, _ = accumulator.compute_loss(learner, accumulator.to_device(batch), factors)
        loss = loss * scale.scale if scale else loss
        if is_sharded(learner):  # parameters exist only during the pass
            loss.backward()
            accumulator.discard()
        else:  # run hooks only, and exchange nothing between DDP's ranks
            torch.autograd.grad(loss, [p for _, p in named], allow_unused=True)
    finally:
        for handle in hooks:
            handle.remove()
    return next(iter(findings), "")


def diagnose_non_finite(
    accumulator: GradientAccumulator, batches: Sequence[Batch], weights: Mapping[str, float]
) -> str:
    """The first non-finite value, and its rank; all ranks must call it."""
    named = accumulator.learner.named_parameters()
    parameter = next((f"the parameter {name}" for name, p in named if not is_finite(p)), "")
    if finding := first_on_any_rank(accumulator.world, parameter):
        return finding
    traces = [find_first_non_finite(accumulator, batch, weights) for batch in batches]
    return first_on_any_rank(accumulator.world, next(filter(None, traces), ""))


def first_on_any_rank(world: World, finding: str) -> str:
    """The finding of the first rank that has one."""
    where = f" on rank {world.rank}" if finding and world.size > 1 else ""
    return world.first_text(finding + where)


class NonFiniteGuard:
    """Ends training with a diagnosis after ten consecutive updates without a finite gradient; in
    fp16, where each halves the loss scale, when it falls below MIN_LOSS_SCALE.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.streak = trainer, torch.zeros((), device=trainer.world.device)

    def __call__(self, step: Step) -> None:
        self.streak = (self.streak + 1) * step.outcome.norm.isfinite().logical_not()
        if self.streak.device.type != "cpu" and step.update % MAX_STREAK:
            return  # reading it would wait for the device
        self.trainer.wait_for_device()
        scale, latest = self.trainer.precision.loss_scale, f"{step.update} (epoch {step.epoch})"
        if scale and scale.scale < MIN_LOSS_SCALE:
            precision = "bf16 or fp32"
            what = (
                f"the loss scale of fp16 must stay above {MIN_LOSS_SCALE:g}, but is "
                f"{scale.scale:.2g} after update {latest}"
            )
        elif not scale and self.streak >= MAX_STREAK:
            precision = "fp32"
            what = (
                f"loss and gradient must be finite, but were not in {MAX_STREAK} updates in a row "
                f"up to update {latest}"
            )
        else:
            return
        finding = diagnose_non_finite(self.trainer.accumulator, step.micro_batches, step.weights)
        raise ToolkitError(
            f"{what}; the first value that is not finite: {finding or 'none any more'}. "
            f"Lower --lr, lengthen --warmup-updates, or use --precision {precision}."
        )


READ_INTERVAL = 10
"""Updates between two reads from a GPU; a CPU is read after each update."""
MAX_NUMBERS = 20
"""Micro-batches or examples in a message; the event has all of them."""


class SkippedUpdateReporter:
    """Writes an event `skipped_update` or `split_update` with the micro-batches and examples."""

    def __init__(
        self, trainer: Trainer, sink: Sink | None, example_ids: Callable[[int, int], Iterable[int]]
    ) -> None:
        """`example_ids` maps epoch and index of a micro-batch to its examples."""
        self.trainer, self.world, self.sink = trainer, trainer.world, sink
        self.example_ids = example_ids
        self.pending: list[Step] = []

    def __call__(self, step: Step) -> None:
        if step.oom_failures:
            text = f"made in parts: {'; '.join(step.oom_failures)}"
            self.write_event("split_update", step, "out of memory", text, range(self.world.size))
        self.pending.append(step)
        # before the next epoch, which may have other shards
        if step.ends_epoch or self.world.device.type == "cpu" or step.update % READ_INTERVAL == 0:
            self.report_pending()

    def report_pending(self) -> None:
        """Report the pending updates that were skipped; all ranks must call it."""
        if not self.pending:
            return
        self.trainer.wait_for_device()
        flags = torch.stack([step.outcome.skipped for step in self.pending]).tolist()
        for step, skipped in zip(self.pending, flags, strict=True):
            if skipped:
                self.report_skipped(step)
        self.pending = []

    def report_skipped(self, step: Step) -> None:
        """Report why all ranks have skipped an update, and on which ranks the reason lies."""
        finite = all(bool(loss.isfinite()) for loss in step.losses.values())
        texts = self.world.all_gather(json.dumps(finite))
        ranks = [rank for rank, text in enumerate(texts) if text == "false"]
        if step.outcome.norm.isfinite():
            reason, text = "spike", f"skipped as a spike of norm {float(step.outcome.norm):.3g}"
        elif ranks:
            where = f" on rank {', '.join(map(str, ranks))}" if self.world.size > 1 else ""
            reason, text = "loss", f"skipped: its loss is not finite{where}"
        elif self.trainer.precision.loss_scale:
            return  # fp16 overflows now and then; its loss is rescaled
        else:
            reason, text = "gradient", "skipped: its gradient is not finite"
        affected = ranks if reason == "loss" else range(self.world.size)
        self.write_event("skipped_update", step, reason, text, affected)

    def write_event(
        self, event: str, step: Step, reason: str, text: str, ranks: Sequence[int]
    ) -> None:
        """Write an event with the examples of these ranks, which the main rank computes."""
        if not self.sink:
            return
        size = self.world.size
        starts = [first_index_of_rank(step.start, rank, size) for rank in ranks]
        count = range(len(step.micro_batches))
        indices = sorted(start + number * size for number in count for start in starts)
        examples = [int(it) for index in indices for it in self.example_ids(step.epoch, index)]
        values: dict[str, EventValue] = {
            "update": step.update,
            "epoch": step.epoch,
            "reason": reason,
            "micro_batches": " ".join(map(str, indices)),
            "examples": " ".join(map(str, examples)),
            "text": f"{text}; micro-batches {join_first(indices, MAX_NUMBERS, ' ')}, examples "
            f"{join_first(examples, MAX_NUMBERS, ' ')}",
        }
        self.sink.write(event, values)


TOLERANCE = 1e-6
"""Relative difference of gradient norms that counts as rounding, as in fairseq."""
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Bytes of a number -> integer type of the same size."""


class RankConsistencyCheck:
    """Ends training if a rank's parameters or gradient norm differ from those of the others."""

    def __init__(self, trainer: Trainer, interval: int) -> None:
        self.world, self.interval = trainer.world, interval
        self.replicated = {
            name: p for name, p in trainer.learner.named_parameters() if not is_sharded_tensor(p)
        }
        """Parameters that every rank holds completely; sharded ones have no copies to compare."""

    def __call__(self, step: Step) -> None:
        if not self.interval or self.world.size == 1 or step.update % self.interval:
            return
        sums = [sum_bits(p.detach()) for p in self.replicated.values()]
        norm = step.outcome.norm.double().reshape(1).view(torch.int64)[0]
        mine = torch.stack([norm, *sums]).cpu()
        rows = torch.zeros(self.world.size, len(mine), dtype=torch.int64)
        rows[self.world.rank] = mine
        norms, parameters = self.world.all_reduce(rows).split([1, len(sums)], dim=1)
        odd, what, where = minority_ranks(parameters), "parameters", ""
        if odd:
            right = parameters[next(r for r in range(len(rows)) if r not in odd)]
            first = int((parameters[odd[0]] != right).nonzero()[0])
            where = f", first in {list(self.replicated)[first]}"
        else:
            what = "gradient norm"
            odd = ranks_with_other_norm(norms.contiguous().view(torch.float64)[:, 0].tolist())
        if odd:
            raise ToolkitError(
                f"all ranks must have the same {what}, but after update {step.update} (epoch "
                f"{step.epoch}) rank {', '.join(map(str, odd))} differs from the others{where}. "
                f"Its memory, GPU or network may be faulty; start again from the last checkpoint "
                f"on another machine."
            )


def sum_bits(p: Tensor) -> Int[Tensor, ""]:
    """The sum of a tensor's bits as integers; different sums mean different tensors."""
    return p.contiguous().view(BITS[p.element_size()]).sum(dtype=torch.int64)


def minority_ranks(rows: Int[Tensor, "R P"]) -> list[int]:
    """The ranks whose row is not the most frequent one (the first of equally frequent ones)."""
    texts = [str(row) for row in rows.tolist()]
    usual = Counter(texts).most_common(1)[0][0]
    return [rank for rank, text in enumerate(texts) if text != usual]


def ranks_with_other_norm(norms: Sequence[float]) -> list[int]:
    """The ranks whose norm differs from the median by more than rounding; NaN equals NaN."""
    norm = torch.tensor(norms, dtype=torch.float64)
    middle = norm.sort().values[(len(norm) - 1) // 2]
    same = norm.isclose(middle, rtol=TOLERANCE, atol=0.0, equal_nan=True)
    return (~same).nonzero()[:, 0].tolist()

"""Forward and backward passes as CUDA graphs.

Batches and gradients are at fixed addresses, which the graphs read and add to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Adam, Optimizer
from torch.utils._pytree import tree_leaves, tree_map_only

from toolkit.common.errors import first_line, join_first
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.distributed.world import seed_rng
from toolkit.models.packing import keep_padding, pack_padding
from toolkit.optim.update import Update
from toolkit.tasks.examples import SHAPE_MULTIPLE, Batch, add_packing, to_device
from toolkit.training.gradient import GradientAccumulator, Losses, MicroBatchPart
from toolkit.training.graph_recorder import GraphRecorder
from toolkit.training.step import collect_tensors
from toolkit.training.trainer import ParameterUpdate, Trainer

Report = Callable[[str], None]


class GraphSet:
    """Graphs of passes and of updates, and a buffer per parameter that they take for its gradient.

    Between updates no parameter has a gradient. After a failure all graphs are freed for good.
    """

    def __init__(
        self, recorder: GraphRecorder, parameters: Sequence[Tensor], report: Report
    ) -> None:
        self.recorder, self.parameters, self.report = recorder, parameters, report
        self.passes: dict[Hashable, GraphedPass] = {}
        """By the signatures of their batches."""
        self.updates: dict[tuple[int, ...], Any] = {}
        """By the indices of the parameters that have a gradient."""
        self.buffers: dict[int, Tensor] = {}
        """By the index of the parameter; made when a graph first needs them."""
        self.stopped = False

    def stop(self, error: Exception) -> None:
        """Free all graphs, whose pool keeps memory until the last of them is gone."""
        if self.stopped:
            return
        self.stopped = True
        for each in (self.passes, self.updates, self.buffers):
            each.clear()
        self.report(f"CUDA graphs: none from now on ({type(error).__name__}: {first_line(error)})")

    def present(self) -> tuple[int, ...]:
        """Indices of the parameters that have a gradient."""
        return tuple(i for i, p in enumerate(self.parameters) if p.grad is not None)

    def attach(self, indices: Sequence[int]) -> None:
        """Make buffers the gradients of these parameters, with the values of those present."""
        new: list[Tensor] = []
        moved: list[tuple[Tensor, Tensor]] = []
        for index in indices:
            p, buffer = self.parameters[index], self.buffer(index)
            if p.grad is None:
                new.append(buffer)
            elif p.grad is not buffer:
                moved.append((buffer, p.grad))
            p.grad = buffer
        if new:
            torch._foreach_zero_(new)
        if moved:
            torch._foreach_copy_([to for to, _ in moved], [source for _, source in moved])

    def buffer(self, index: int) -> Tensor:
        if index not in self.buffers:
            self.buffers[index] = torch.zeros_like(self.parameters[index])
        return self.buffers[index]


HOST_FIELDS = ("sentences", "tokens", "word_count")
"""Fields of a batch that change from one to the next and that no model reads. The same holds for
its weights, except that a model may ask whether one is zero."""


class HostNumber:
    """Placeholder in a graph for a number of the host, whose first value would never change."""

    def __init__(self, name: str, is_zero: bool | None = None) -> None:
        self.name, self.is_zero = name, is_zero

    def __bool__(self) -> bool:
        return self.fail() if self.is_zero is None else not self.is_zero

    def fail(self, *arguments: object) -> NoReturn:
        raise TypeError(f"a model that is captured in a CUDA graph cannot read batch.{self.name}")

    __float__ = __int__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = fail
    __add__ = __radd__ = __sub__ = __rsub__ = fail
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = fail


def batch_signature(batch: Batch) -> Hashable:
    """Shapes and types of all tensors, other plain values, and which weights are zero."""
    hidden = {name: None for name in HOST_FIELDS if hasattr(batch, name)}
    zeros = [not weight for weight in batch.weights.values()]
    named: Any = batch
    values = tree_leaves(named._replace(weights=zeros, **hidden))
    described = [(it.shape, it.dtype) if isinstance(it, Tensor) else it for it in values]
    return type(batch), *batch.weights, *described


def make_static(batch: Batch, device: torch.device) -> Batch:
    """A batch on the device whose tensors take the values of others with the same signature."""
    static: Any = tree_map_only(
        Tensor, lambda it: torch.empty(it.shape, dtype=it.dtype, device=device), batch
    )
    numbers = {name: HostNumber(name) for name in HOST_FIELDS if hasattr(batch, name)}
    weights = {name: HostNumber("weights", not it) for name, it in batch.weights.items()}
    made: Batch = static._replace(**numbers, weights=weights)
    fill(made, batch)
    return made


def fill(static: Batch, batch: Batch) -> None:
    """Copy the values of a batch, without waiting if they are in pinned memory."""
    for kept, tensor in zip(collect_tensors(static), collect_tensors(batch), strict=True):
        kept.copy_(tensor, non_blocking=True)


class GraphedPass:
    """Forward and backward over a batch at fixed addresses; adds to the gradients' buffers. The
    batch and the loss factors are inputs.
    """

    def __init__(
        self, accumulator: GradientAccumulator, graphs: GraphSet, batch: Batch, names: list[str]
    ) -> None:
        device = accumulator.world.device
        self.accumulator, self.graphs = accumulator, graphs
        self.batch = make_static(batch, device)
        self.factors = {name: torch.ones((), device=device) for name in names}
        self.losses: list[str] = []
        """Objectives in the order of the graph's output."""
        outside = [p.grad for p in self.graphs.parameters]
        try:
            self.kept = graphs.recorder.warm_up(self.run_alone)
            self.learned = self.graphs.present()
            """Indices of the parameters that have a gradient."""
            for index in self.learned:  # with whatever the buffers hold
                self.graphs.parameters[index].grad = self.graphs.buffer(index)
            self.replay = graphs.recorder.capture(self.run)
        finally:
            for p, gradient in zip(self.graphs.parameters, outside, strict=True):
                p.grad = gradient

    def run_alone(self) -> Tensor:
        """The pass without earlier gradients."""
        for p in self.graphs.parameters:
            p.grad = None
        return self.run()

    def run(self) -> Tensor:
        losses = self.accumulator.run_pass(self.batch, self.factors)
        self.losses = list(losses)
        return torch.stack(list(losses.values()))

    def __call__(self, batch: Batch, factors: Mapping[str, float], seed: int) -> Losses:
        """Add the gradient of a batch; its summed losses."""
        self.graphs.attach(self.learned)
        fill(self.batch, batch)
        for name, factor in self.factors.items():
            factor.fill_(factors[name])
        seed_rng(seed, self.accumulator.world.device)
        losses = self.replay().clone()  # the next replay overwrites them
        return dict(zip(self.losses, losses.unbind(), strict=True))


MAX_TOKENS = 65_536
"""Tokens of a padded batch, padding included, from which on it is packed, and has no graph."""
MIN_SEEN = 2
"""Batches with a signature before it is captured, the captured one included."""
MAX_GRAPHS = 32
"""Number of signatures that are captured. Each graph takes memory for its kernels' arguments."""


class GraphedAccumulator(GradientAccumulator):
    """Replays the passes of batches whose signature repeats; others run without graphs.

    Packed batches have as many rows as tokens, so they repeat only if they are filled.
    """

    def __init__(self, plain: GradientAccumulator, graphs: GraphSet, *, filled: bool) -> None:
        """With the learner and the criterion of the accumulator whose place it takes."""
        parts = plain.learner, plain.wrapped, plain.criterion
        super().__init__(*parts, world=plain.world, precision=plain.precision)
        self.graphs, self.filled = graphs, filled
        self.seen: Counter[Hashable] = Counter()
        """Batches of each signature before its capture."""

    def accumulate_part(
        self, part: MicroBatchPart, weights: Mapping[str, float], *, syncs: bool
    ) -> Losses:
        batch = self.prepare(part[0])
        graph = self.find_graph(batch, list(weights))
        if graph is None:
            return super().accumulate_part(part, weights, syncs=syncs)
        return graph(batch, self.loss_factors(weights), part[1])

    def prepare(self, batch: Batch) -> Batch:
        """The batch on the host as the learner reads it; small ones keep their padding.

        That holds for batches without a graph too: how dropout is drawn does not depend on graphs.
        """
        packs = self.learner.encoder.uses_packing and self.world.device.type != "cpu"
        keeps = self.may_repeat(batch) and not self.filled
        return add_packing(batch, keep_padding if keeps else pack_padding) if packs else batch

    def to_device(self, batch: Batch) -> Batch:
        return to_device(self.prepare(batch), self.world.device)

    def may_repeat(self, batch: Batch) -> bool:
        """Whether other batches may have the same signature."""
        small = batch.inputs.tokens.numel() < MAX_TOKENS
        return self.filled or small or batch.inputs.padding is None

    def find_graph(self, batch: Batch, names: list[str]) -> GraphedPass | None:
        """The graph for a batch, captured now if its signature has repeated."""
        if self.graphs.stopped or not self.may_repeat(batch):
            return None
        signature, passes = (batch_signature(batch), *names), self.graphs.passes
        if signature in passes:
            return passes[signature]
        self.seen[signature] += 1
        if self.seen[signature] < MIN_SEEN or len(passes) >= MAX_GRAPHS:
            return None
        try:
            passes[signature] = GraphedPass(self, self.graphs, batch, names)
        except Exception as error:  # the model's own errors will recur without a graph
            self.graphs.stop(error)
        if len(passes) == MAX_GRAPHS:
            self.graphs.report(
                f"CUDA graphs: captured for {MAX_GRAPHS} shapes of batches; others run without"
            )
        return passes.get(signature)

    def try_accumulate(
        self, parts: Sequence[MicroBatchPart], weights: Mapping[str, float]
    ) -> tuple[Losses, str]:
        losses, failure = super().try_accumulate(parts, weights)
        if failure:
            self.graphs.stop(MemoryError(failure))
        return losses, failure


class GraphedUpdate:
    """Replays updates of gradients that are in buffers; others, and the first, run as they are.

    There is a graph for each set of parameters that have a gradient: the rest keep their values.
    Learning rates are inputs, and so is the mean loss if spikes are skipped.
    """

    def __init__(self, update: ParameterUpdate, optimizer: Optimizer, graphs: GraphSet) -> None:
        self.update, self.optimizer, self.graphs = update, optimizer, graphs
        device = self.graphs.parameters[0].device
        self.rates = [torch.zeros((), device=device) for _ in optimizer.param_groups]
        """Of each parameter group, in fp32 as torch's fused kernels read them."""
        self.loss = torch.zeros((), device=device)

    def __call__(self, loss: Float[Tensor, ""] | None) -> Update:
        present, state, buffers = self.graphs.present(), self.optimizer.state, self.graphs.buffers
        parameters = [(i, self.graphs.parameters[i]) for i in present]
        # gradients are in buffers, and the optimizer has made its states, in no graph
        prepared = all(p.grad is buffers.get(i) and state.get(p) for i, p in parameters)
        if not present or not prepared:
            return self.update(loss)
        if present not in self.graphs.updates and not self.try_capture(present, loss is not None):
            return self.update(loss)
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])
        if loss is not None:
            self.loss.copy_(loss)
        return Update(*self.graphs.updates[present]().clone().unbind())

    def try_capture(self, present: tuple[int, ...], takes_loss: bool) -> bool:
        """Without a warm-up, which would change the parameters: earlier updates were one.

        The optimizer reads its learning rates from tensors, and lets itself be captured.
        """
        loss, groups = self.loss if takes_loss else None, self.optimizer.param_groups
        before = [{name: group[name] for name in ("lr", "capturable")} for group in groups]
        for group, rate in zip(groups, self.rates, strict=True):
            group.update(lr=rate, capturable=True)
        try:
            graph = self.graphs.recorder.capture(lambda: torch.stack(self.update(loss)))
        except Exception as error:
            self.graphs.stop(error)
            return False
        finally:
            for group, values in zip(groups, before, strict=True):
                group.update(values)
        self.graphs.updates[present] = graph
        return True


GRAPH_ROW_MULTIPLE = 256


@runtime_checkable
class GraphedModule(Protocol):
    """A module of a plugin that says whether graphs may hold its work: see GraphBody."""

    allows_cuda_graphs: bool


def may_be_recorded(part: object) -> bool:
    """Whether graphs may hold the work of a module or criterion: those of torch and ours."""
    if isinstance(part, GraphedModule):
        return part.allows_cuda_graphs
    return type(part).__module__.partition(".")[0] in ("torch", "toolkit")


def reason_against_graphs(c: TrainingConfig, world: World) -> str:
    """Why a run with --cuda-graph auto cannot have graphs; empty if it can."""
    if world.device.type != "cuda":
        return f"the device is {world.device.type}"
    if world.size > 1:
        return "several ranks exchange gradients"
    if c.checkpoint_activations:
        return "activation checkpointing sets the generator's state during the backward pass"
    return ""


def choose_row_multiple(c: TrainingConfig, world: World) -> int:
    """Multiple of the number of selected positions, so that it seldom changes: for 4,096 tokens of
    which 15 % are masked, 614 +- 23, it is 768 with graphs.
    """
    graphs = c.cuda_graph == "auto" and not reason_against_graphs(c, world)
    return GRAPH_ROW_MULTIPLE if graphs else SHAPE_MULTIPLE


def enable_cuda_graphs(
    trainer: Trainer, c: TrainingConfig, report: Report, *, filled: bool = False
) -> None:
    """Let a trainer use CUDA graphs if the option asks for them and the run can; its batches have
    one shape if they are `filled`.
    """
    if c.cuda_graph == "off":
        return
    reason = reason_against_graphs(c, trainer.world)
    parts = *trainer.learner.modules(), trainer.criterion
    names = {type(part).__name__ for part in parts if not may_be_recorded(part)}
    if names and not reason:
        reason = f"{join_first(sorted(names), 3)} of a plugin does not set allows_cuda_graphs"
    if reason:
        report(f"CUDA graphs: none, since {reason}")
        return
    record_updates(trainer, GraphRecorder(trainer.world.device), report, filled=filled)


def record_updates(
    trainer: Trainer, recorder: GraphRecorder, report: Report, *, filled: bool = False
) -> None:
    """Record passes whose batches repeat and, if its optimizer can, the trainer's updates."""
    graphs = GraphSet(recorder, trainer.parameters, report)
    accumulator = GraphedAccumulator(trainer.accumulator, graphs, filled=filled)
    trainer.accumulator = trainer.accumulate_gradients.accumulator = accumulator
    # torch's fused Adam takes learning rates from the device and keeps its states in place
    if isinstance(trainer.optimizer, Adam) and trainer.optimizer.defaults.get("fused"):
        trainer.update_parameters = GraphedUpdate(trainer.clip_and_step, trainer.optimizer, graphs)

"""Forward and backward passes as CUDA graphs.

Batches and gradients are at fixed addresses, which the graphs read and add to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from toolkit.common.errors import first_line
from toolkit.criteria import Criterion
from toolkit.distributed import World
from toolkit.models.packing import keep_padding
from toolkit.optim.update import Precision
from toolkit.tasks.examples import Batch, add_packing, to_device
from toolkit.tasks.learner import Learner
from toolkit.training.cuda_graphs.recorder import GraphRecorder
from toolkit.training.device import seed_rng
from toolkit.training.gradient import GradientAccumulator, Losses, MicroBatchPart


class GradientBuffers:
    """One buffer per parameter, which graphs take for its gradient.

    Between updates no parameter has a gradient, with or without graphs.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = parameters
        self.buffers: dict[int, Tensor] = {}
        """By the index of the parameter; made when a graph first needs them."""

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

    def attach_unchanged(self, indices: Sequence[int]) -> None:
        """Make buffers the gradients of these parameters with whatever they hold."""
        for index in indices:
            self.parameters[index].grad = self.buffer(index)

    def hold(self, indices: Sequence[int]) -> bool:
        """Whether the gradients of these parameters are their buffers."""
        return all(self.parameters[i].grad is self.buffers.get(i) for i in indices)

    def buffer(self, index: int) -> Tensor:
        if index not in self.buffers:
            self.buffers[index] = torch.zeros_like(self.parameters[index])
        return self.buffers[index]

    def remove_gradients(self) -> None:
        """Remove all gradients; the buffers keep their memory."""
        for p in self.parameters:
            p.grad = None

    def release(self) -> None:
        """Forget the buffers; those that are gradients at the moment live until the update."""
        self.buffers.clear()

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Without gradients inside; afterwards the present ones are back."""
        kept = [p.grad for p in self.parameters]
        self.remove_gradients()
        try:
            yield
        finally:
            for p, gradient in zip(self.parameters, kept, strict=True):
                p.grad = gradient


Report = Callable[[str], None]


class GraphSet:
    """Graphs of passes and of updates. After a failure all are freed, and there are no new ones."""

    def __init__(self, recorder: GraphRecorder, buffers: GradientBuffers, report: Report) -> None:
        self.recorder, self.buffers, self.report = recorder, buffers, report
        self.passes: dict[Hashable, Any] = {}
        """By the signatures of their batches."""
        self.updates: dict[tuple[int, ...], Any] = {}
        """By the indices of the parameters that have a gradient."""
        self.stopped = False

    def stop(self, error: Exception) -> None:
        """Free all graphs, whose pool keeps memory until the last of them is gone."""
        if self.stopped:
            return
        self.stopped = True
        self.passes.clear()
        self.updates.clear()
        self.buffers.release()
        self.report(f"CUDA graphs: none from now on ({type(error).__name__}: {first_line(error)})")


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
    """Shapes and types of all tensors, which optional ones there are, other plain values, and which
    weights are zero."""
    zeros = tuple((name, not weight) for name, weight in batch.weights.items())
    hidden = {"weights", *HOST_FIELDS}
    return zeros, *((name, _describe(it)) for name, it in _fields(batch) if name not in hidden)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    return zip(value._fields, value, strict=True)


def _describe(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    if hasattr(value, "_fields"):
        return tuple((name, _describe(part)) for name, part in _fields(value))
    described: Hashable = value
    return described


def collect_tensors(value: object) -> list[Tensor]:
    """The tensors of a batch and of the NamedTuples in it."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [tensor for part in value for tensor in collect_tensors(part)]
    return []


class StaticBatch:
    """A batch on the device whose tensors take the values of others with the same signature."""

    def __init__(self, batch: Batch, device: torch.device) -> None:
        named: Any = _allocate(batch, device)
        numbers = {name: HostNumber(name) for name in HOST_FIELDS if hasattr(batch, name)}
        weights = {name: HostNumber("weights", not it) for name, it in batch.weights.items()}
        self.batch: Batch = named._replace(**numbers, weights=weights)
        self.tensors = collect_tensors(self.batch)
        self.fill(batch)

    def fill(self, batch: Batch) -> None:
        """Copy the values of a batch, without waiting if they are in pinned memory."""
        for static, tensor in zip(self.tensors, collect_tensors(batch), strict=True):
            static.copy_(tensor, non_blocking=True)


def _allocate(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device=device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_allocate(part, device) for part in value))
    return value


class GraphedPass:
    """Forward and backward over a batch at fixed addresses; adds to the gradients' buffers.

    The batch and the loss factors are inputs. The loss scale is a tensor that stays where it is.
    """

    def __init__(
        self, accumulator: GradientAccumulator, graphs: GraphSet, batch: Batch, names: list[str]
    ) -> None:
        device = accumulator.world.device
        self.accumulator, self.buffers = accumulator, graphs.buffers
        self.batch = StaticBatch(batch, device)
        self.factors = {name: torch.ones((), device=device) for name in names}
        self.losses: list[str] = []
        """Objectives in the order of the graph's output."""
        with self.buffers.set_aside():
            self.kept = graphs.recorder.warm_up(self.run_alone)
            self.learned = self.buffers.present()
            """Indices of the parameters that have a gradient."""
        with self.buffers.set_aside():
            self.buffers.attach_unchanged(self.learned)
            self.replay = graphs.recorder.capture(self.run)

    def run_alone(self) -> Tensor:
        """The pass without earlier gradients."""
        self.buffers.remove_gradients()
        return self.run()

    def run(self) -> Tensor:
        losses = self.accumulator.run_pass(self.batch.batch, self.factors)
        self.losses = list(losses)
        return torch.stack(list(losses.values()))

    def __call__(self, batch: Batch, factors: Mapping[str, float], seed: int) -> Losses:
        """Add the gradient of a batch; its summed losses."""
        self.buffers.attach(self.learned)
        self.batch.fill(batch)
        for name, factor in self.factors.items():
            factor.fill_(factors[name])
        seed_rng(seed, self.accumulator.world.device)
        losses = self.replay().clone()  # the next replay overwrites them
        return dict(zip(self.losses, losses.unbind(), strict=True))


MAX_TOKENS = 65_536
"""Tokens of a batch, padding included, from which on the GPU is slower than the host."""
MIN_SEEN = 2
"""Batches with a signature before it is captured, the captured one included."""
MAX_GRAPHS = 32
"""Number of signatures that are captured. Each graph takes memory for its kernels' arguments."""


def is_small(batch: Batch) -> bool:
    """Whether a batch has so few tokens that graphs are made for it."""
    return batch.inputs.tokens.numel() < MAX_TOKENS


class GraphedAccumulator(GradientAccumulator):
    """Replays the passes of small batches whose signature repeats; others run without graphs."""

    def __init__(
        self,
        learner: Learner,
        wrapped: nn.Module,
        criterion: Criterion,
        *,
        world: World,
        precision: Precision,
        graphs: GraphSet,
    ) -> None:
        super().__init__(learner, wrapped, criterion, world=world, precision=precision)
        self.graphs = graphs
        self.seen: Counter[Hashable] = Counter()
        """Batches of each signature before its capture."""
        self.full = False

    def accumulate_part(
        self, part: MicroBatchPart, weights: Mapping[str, float], *, syncs: bool
    ) -> Losses:
        batch = self.prepare(part.batch)
        graph = self.find_graph(batch, list(weights))
        if graph is None:
            return super().accumulate_part(part, weights, syncs=syncs)
        return graph(batch, self.loss_factors(weights), part.seed)

    def prepare(self, batch: Batch) -> Batch:
        """The batch on the host as the learner reads it, small ones with their padding.

        That holds for batches without a graph too: how dropout is drawn does not depend on graphs.
        """
        packs = self.learner.uses_packing and self.world.device.type != "cpu"
        return add_packing(batch, keep_padding) if packs and is_small(batch) else batch

    def to_device(self, batch: Batch) -> Batch:
        if is_small(batch):
            return to_device(self.prepare(batch), self.world.device)
        return super().to_device(batch)

    def find_graph(self, batch: Batch, names: list[str]) -> GraphedPass | None:
        """The graph for a batch, captured now if its signature has repeated."""
        if self.graphs.stopped or not is_small(batch):
            return None
        signature = batch_signature(batch), *names
        if signature not in self.graphs.passes and self.is_due(signature):
            try:
                graph = GraphedPass(self, self.graphs, batch, names)
                self.graphs.passes[signature] = graph
            except Exception as error:  # the model's own errors will recur without a graph
                self.graphs.stop(error)
        return self.graphs.passes.get(signature)

    def is_due(self, signature: Hashable) -> bool:
        """Count a batch; whether its signature is to be captured."""
        self.seen[signature] += 1
        if self.seen[signature] < MIN_SEEN:
            return False
        if len(self.graphs.passes) >= MAX_GRAPHS and not self.full:
            self.full = True
            self.graphs.report(
                f"CUDA graphs: captured for {MAX_GRAPHS} shapes of batches; others run without"
            )
        return not self.full

    def try_accumulate(
        self, parts: Sequence[MicroBatchPart], weights: Mapping[str, float]
    ) -> tuple[Losses, str]:
        losses, failure = super().try_accumulate(parts, weights)
        if failure:
            self.graphs.stop(MemoryError(failure))
        return losses, failure

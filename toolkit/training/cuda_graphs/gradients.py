"""Gradients of small batches by CUDA graphs, one for each signature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from torch import nn

from toolkit.criteria import Criterion
from toolkit.distributed import World
from toolkit.models.packing import keep_padding
from toolkit.optim.precision import Precision
from toolkit.tasks.batch import Batch, add_packing, to_device
from toolkit.tasks.learner import Learner
from toolkit.training.cuda_graphs.graph_set import GraphSet
from toolkit.training.cuda_graphs.graphed_pass import GraphedPass
from toolkit.training.cuda_graphs.static_batch import batch_signature
from toolkit.training.gradient import GradientAccumulator, Losses, MicroBatchPart

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

"""Masks that follow the accuracy of each token type (AMLM, Edman and Fraser 2025).

B sentences   S tokens of a sentence   K most selected tokens   V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.criteria import IGNORED, LazyPrediction, ProjectedClasses
from toolkit.criteria.cross_entropy import split_logits
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import TargetBatch

KEPT = 0.2
"""Share of its last value that a weight keeps."""
FLOOR = 1 / 30
"""Minimum of the weights, whose mean is 1; the paper's 0.005 of a rate of 0.15."""


class AdaptiveBatch(NamedTuple):
    """Sentences whose tokens are selected on the device, by the weights of their types."""

    inputs: Inputs
    """The original tokens."""
    replaced: Int[Tensor, "B S"]
    """What the model sees of each token if it is selected."""
    draws: Float[Tensor, "B S"]
    """Uniform numbers in [0, 1); 0 at tokens that cannot be selected."""
    budget: Int[Tensor, " B"]
    """Number of tokens to select in each sentence."""
    most: int
    """The largest budget, K."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class AdaptiveMasks(nn.Module):
    """Every `interval` updates w <- 0.2 w + 0.8 (1 - a), at least 1/30 and scaled to a mean of 1,
    with the accuracy a = (c + 1/2) / (n + 1) of n predictions of a token type, c of them correct.

    A sentence of n tokens has round(r n) masks, drawn without replacement in proportion to w
    (Efraimidis and Spirakis 2006: the largest log(u) / w). The authors' code draws each token
    independently with probability r n w / sum w. Weights and counts are part of checkpoints.
    """

    allows_cuda_graphs = False
    weights: Tensor
    seen: Tensor
    correct: Tensor

    def __init__(self, vocabulary: int, interval: int) -> None:
        super().__init__()
        self.interval = interval
        for name, fill in (("weights", 1.0), ("seen", 0.0), ("correct", 0.0)):
            self.register_buffer(name, torch.full((vocabulary,), fill))
        self.pending: list[Tensor] = []
        """Counts of the micro-batches of this update, (2, V) each."""

    @torch.no_grad()
    def select(self, batch: AdaptiveBatch) -> TargetBatch:
        """The batch with masked tokens; sentences with a smaller budget have IGNORED targets."""
        tokens, count = batch.inputs.tokens, batch.most
        keys = batch.draws.log() / self.weights[tokens]
        order = keys.argsort(dim=1, descending=True)[:, :count]  # (B, S) -> (B, K)
        valid = torch.arange(count, device=order.device) < batch.budget[:, None]
        original, replaced = tokens.gather(1, order), batch.replaced.gather(1, order)
        visible = tokens.scatter(1, order, torch.where(valid, replaced, original))
        rows = torch.arange(len(tokens), device=order.device)[:, None] * tokens.shape[1]
        return TargetBatch(
            inputs=batch.inputs._replace(tokens=visible),
            selected=(rows + order).flatten(),
            targets=torch.where(valid, original, IGNORED).flatten(),
            weights=batch.weights,
            sentences=batch.sentences,
            tokens=batch.tokens,
        )

    @torch.no_grad()
    def observe(self, prediction: LazyPrediction) -> None:
        """Count the predictions of a micro-batch, and the correct ones, by their targets."""
        if isinstance(prediction, ProjectedClasses):
            best = torch.cat([logits.argmax(-1) for logits in split_logits(prediction)])
        else:
            best = prediction[0].argmax(-1)
        targets, real = prediction.targets, prediction.targets != IGNORED
        counts = self.weights.new_zeros(2, len(self.weights))
        for row, hits in zip(counts, (real, real & (best == targets)), strict=True):
            row.scatter_add_(0, targets.where(real, 0), hits.to(row))
        self.pending.append(counts)

    def on_discard(self) -> None:
        """Forget the predictions of a failed pass, or of a probe."""
        self.pending = []

    @torch.no_grad()
    def on_update(self, update: int, sum_over_ranks: Callable[[Tensor], Tensor]) -> None:
        """Add the counts of an update over all ranks, and change the weights if it is time."""
        total = torch.stack([torch.zeros_like(self.weights).expand(2, -1), *self.pending]).sum(0)
        self.pending = []
        seen, correct = sum_over_ranks(total.cpu()).to(self.weights.device)
        self.seen += seen
        self.correct += correct
        if update % self.interval == 0:
            wrong = 1 - (self.correct + 0.5) / (self.seen + 1)
            weights = (KEPT * self.weights + (1 - KEPT) * wrong).clamp(min=FLOOR)
            self.weights.copy_(weights / weights.mean())
            self.seen.zero_()
            self.correct.zero_()

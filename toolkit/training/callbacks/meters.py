"""Training metrics between two reports; they are read from the device only for a report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from toolkit.common.json_files import convert
from toolkit.distributed import World
from toolkit.training.step import Metrics, State, Step

READ_INTERVAL = 256
"""Updates after which pending tensors are read even without a report."""


@dataclass(kw_only=True)
class UpdateSums:
    """Sums over updates; `losses` and `tokens` are this rank's, the others hold for all ranks."""

    losses: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    tokens: int = 0
    updates: int = 0
    norms: float = 0.0
    clipped: float = 0.0
    skipped: float = 0.0

    def add(self, tokens: int, weights: Mapping[str, float], numbers: Sequence[float]) -> None:
        """Add an update's norm, clipped, skipped and losses; of a skipped one, only that it was."""
        norm, clipped, skipped, *losses = numbers
        self.updates += 1
        self.tokens += tokens
        self.skipped += skipped
        if skipped:
            return
        self.norms += norm
        self.clipped += clipped
        for (name, weight), loss in zip(weights.items(), losses, strict=True):
            self.losses[name] = self.losses.get(name, 0.0) + loss
            self.weights[name] = self.weights.get(name, 0.0) + weight

    def sum_over_ranks(self, world: World) -> UpdateSums:
        """The sums over all ranks; all ranks must call it."""
        mine = json.dumps({"losses": self.losses, "tokens": self.tokens})
        parts = [json.loads(text) for text in world.all_gather(mine)]
        losses = {o: sum(part["losses"].get(o, 0.0) for part in parts) for o in self.losses}
        tokens = sum(part["tokens"] for part in parts)
        return UpdateSums(**{**asdict(self), "losses": losses, "tokens": tokens})

    def compute(
        self, coefficients: Mapping[str, float], *, with_perplexity: bool = True
    ) -> Metrics:
        """loss, <objective>_loss, ppl = exp(loss of the first objective), norm, clipping.

        The loss is missing if every update was skipped or had nothing to predict.
        """
        means = {o: self.losses[o] / w for o, w in self.weights.items() if w}
        taken = max(1.0, self.updates - self.skipped)
        losses = loss_metrics(means, coefficients, with_perplexity=with_perplexity) if means else {}
        return {
            **losses,
            "gradient_norm": self.norms / taken,
            "clip_rate": self.clipped / taken,
            "skipped_updates": self.skipped,
        }


def loss_metrics(
    means: Mapping[str, float], coefficients: Mapping[str, float], *, with_perplexity: bool = True
) -> Metrics:
    """The weighted loss, its parts, and the perplexity of the first objective."""
    metrics: Metrics = {"loss": sum(coefficients[o] * mean for o, mean in means.items())}
    metrics |= {f"{o}_loss": mean for o, mean in means.items()}
    if with_perplexity:
        metrics["ppl"] = perplexity(means.get(next(iter(coefficients)), math.inf))
    return metrics


def perplexity(mean_loss: float) -> float:
    """exp(-mean log p), bounded so that it does not overflow."""
    return math.exp(min(mean_loss, 700.0))


class Meters:
    """Sums over the updates since the latest report; adding one does not wait for the device."""

    def __init__(self) -> None:
        self.sums = UpdateSums()
        self.pending: list[tuple[int, dict[str, float], list[Tensor]]] = []

    def add(self, step: Step) -> None:
        weights = {name: step.weights[name] for name in step.losses}
        self.pending.append((step.tokens, weights, [*step.outcome, *step.losses.values()]))
        if len(self.pending) >= READ_INTERVAL:
            self.read()

    def read(self) -> UpdateSums:
        """The sums so far, read in one transfer."""
        if self.pending:
            numbers = iter(
                torch.stack([t.double() for *_, ts in self.pending for t in ts]).tolist()
            )
            for tokens, weights, tensors in self.pending:
                self.sums.add(tokens, weights, [next(numbers) for _ in tensors])
        self.pending = []
        return self.sums

    def reset(self) -> None:
        self.read()
        self.sums = UpdateSums()

    def state(self, world: World) -> State:
        return asdict(self.read().sum_over_ranks(world))

    def restore(self, state: State, world: World) -> None:
        """The main rank takes over the sums of all ranks."""
        self.sums, self.pending = convert(state, UpdateSums), []
        if not world.is_main:
            self.sums.losses, self.sums.tokens = dict.fromkeys(self.sums.losses, 0.0), 0

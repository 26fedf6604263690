"""Training figures between two reports, read from the device and summed over ranks only there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from toolkit.distributed import World
from toolkit.training.step import Metrics, Step

READ_INTERVAL = 256
"""Updates after which the figures are read from the device even if nobody asks."""


@dataclass(kw_only=True)
class UpdateSums:
    """What is added up over updates; `losses` and `tokens` are this rank's, the rest is all's."""

    losses: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    tokens: int = 0
    updates: int = 0
    norms: float = 0.0
    clipped: float = 0.0
    skipped: float = 0.0

    def add(self, tokens: int, weights: Mapping[str, float], numbers: Sequence[float]) -> None:
        """One update: its norm, clipped, skipped and losses; a skipped one leaves means alone."""
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
        """The same over all ranks; every rank must ask."""
        mine = json.dumps({"losses": self.losses, "tokens": self.tokens})
        parts = [json.loads(text) for text in world.all_gather(mine)]
        losses = {o: sum(part["losses"].get(o, 0.0) for part in parts) for o in self.losses}
        tokens = sum(part["tokens"] for part in parts)
        return UpdateSums(**{**asdict(self), "losses": losses, "tokens": tokens})

    def compute(self, coefficients: Mapping[str, float], *, perplexity: bool = True) -> Metrics:
        """loss, <objective>_loss, ppl = exp(loss of the first objective), norm, clipping.

        No loss where every update was skipped, or had nothing to predict.
        """
        means = {o: self.losses[o] / w for o, w in self.weights.items() if w}
        taken = max(1.0, self.updates - self.skipped)
        losses = loss_metrics(means, coefficients, perplexity=perplexity) if means else {}
        return {
            **losses,
            "gradient_norm": self.norms / taken,
            "clip_rate": self.clipped / taken,
            "skipped_updates": self.skipped,
        }


def loss_metrics(
    means: Mapping[str, float], coefficients: Mapping[str, float], *, perplexity: bool = True
) -> Metrics:
    """The weighted loss, its parts, and the perplexity exp(-mean log p) of the first objective."""
    first = next(iter(coefficients))
    found: Metrics = {"loss": sum(coefficients[o] * mean for o, mean in means.items())}
    found |= {f"{o}_loss": mean for o, mean in means.items()}
    if not perplexity:
        return found
    return {**found, "ppl": math.exp(min(means.get(first, math.inf), 700.0))}


class Meters:
    """Sums over the updates since the last report; adding one does not wait for the device."""

    def __init__(self) -> None:
        self.sums = UpdateSums()
        self.pending: list[tuple[int, dict[str, float], list[Tensor]]] = []

    def add(self, step: Step) -> None:
        weights = {name: step.weights[name] for name in step.losses}
        self.pending.append((step.tokens, weights, [*step.outcome, *step.losses.values()]))
        if len(self.pending) >= READ_INTERVAL:
            self.read()

    def read(self) -> UpdateSums:
        """Everything so far, in one transfer."""
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

    def state(self, world: World) -> dict[str, Any]:
        return asdict(self.read().sum_over_ranks(world))

    def restore(self, state: Mapping[str, Any], world: World) -> None:
        """The first rank takes over what all ranks had."""
        share = (
            {} if world.is_main else {"losses": dict.fromkeys(state["losses"], 0.0), "tokens": 0}
        )
        self.sums, self.pending = UpdateSums(**{**state, **share}), []

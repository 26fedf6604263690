"""Evaluation: every example of a split exactly once, over all ranks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from toolkit.criteria import Criterion
from toolkit.distributed import World
from toolkit.optim.precision import Precision
from toolkit.tasks.batch import Batch
from toolkit.tasks.task import Learner
from toolkit.training.device import to_device
from toolkit.training.meters import losses_of
from toolkit.training.step import Figures

READ_EVERY = 64


@runtime_checkable
class EvaluationLoader(Protocol):
    def evaluation(self) -> Iterator[Any]: ...


class Totals:
    """Numerators and denominators by name, added up on the device and read now and then."""

    def __init__(self) -> None:
        self.numbers: dict[str, float] = {}
        self.unread: list[tuple[str, Tensor | float]] = []

    def add(self, found: Mapping[str, Tensor | float]) -> None:
        self.unread += found.items()
        if len(self.unread) >= READ_EVERY * len(found):
            self.read()

    def read(self) -> dict[str, float]:
        tensors = [torch.as_tensor(value).double().cpu() for _, value in self.unread]
        for (name, _), value in zip(self.unread, tensors, strict=True):
            self.numbers[name] = self.numbers.get(name, 0.0) + float(value)
        self.unread = []
        return self.numbers

    def over_ranks(self, world: World) -> dict[str, float]:
        """The sums of all ranks; one that had no batch has no names either."""
        summed: dict[str, float] = {}
        for text in world.gather(json.dumps(self.read())):
            for name, value in json.loads(text).items():
                summed[name] = summed.get(name, 0.0) + value
        return summed


def validate(
    learner: Learner,
    criterion: Criterion,
    loader: EvaluationLoader,
    *,
    examples: int,
    world: World,
    precision: Precision,
    told: Callable[[int], object] = lambda examples: None,
) -> Figures:
    """Losses, perplexity and the task's figures; `examples` is how many the split holds.

    `told` hears of the examples of each batch of this rank.
    """
    learner.eval()
    totals = Totals()
    with torch.no_grad():
        for batch in loader.evaluation():
            totals.add(figures(learner, criterion, to_device(batch, world.device), precision))
            told(batch.sentences)
    sums = totals.over_ranks(world)
    seen = round(sums.pop("examples", 0.0))
    assert seen == examples, f"evaluation saw {seen} examples of a split that holds {examples}"
    return {**ratios(sums, learner.task.coefficients), "examples": seen}


def figures(
    learner: Learner, criterion: Criterion, batch: Batch, precision: Precision
) -> dict[str, Tensor | float]:
    """One batch's numerators ("over") and denominators ("under")."""
    with precision.autocast():
        predictions = learner(batch)
        totals = criterion(predictions)
        measured = learner.task.measure(predictions)
    found: dict[str, Tensor | float] = {"examples": float(batch.sentences)}
    for name, total in totals.items():
        found |= {f"over loss {name}": total, f"under loss {name}": batch.weights.get(name, 0.0)}
    for name, ratio in measured.items():
        found |= {f"over {name}": ratio.total, f"under {name}": ratio.weight}
    return found


def ratios(sums: Mapping[str, float], coefficients: Mapping[str, float]) -> Figures:
    """The figures themselves; one without anything to count is left out."""
    names = [key.removeprefix("over ") for key in sums if key.startswith("over ")]
    found = {n: sums[f"over {n}"] / sums[f"under {n}"] for n in names if sums[f"under {n}"]}
    means = {o: found.pop(f"loss {o}") for o in coefficients if f"loss {o}" in found}
    return {**losses_of(means, coefficients), **found}

"""An evaluation's batch that does not fit into memory is taken in halves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Criterion
from toolkit.distributed import World
from toolkit.distributed.fsdp import is_sharded
from toolkit.metrics.auc import roc_auc
from toolkit.optim.precision import Precision
from toolkit.tasks.batch import Batch
from toolkit.tasks.predictions import PredictionCollector
from toolkit.tasks.task import Learner, Perplexity, Ranking
from toolkit.training.callbacks.meters import loss_metrics
from toolkit.training.device import to_device
from toolkit.training.gradient import first_line, is_out_of_memory
from toolkit.training.step import Metrics

Numbers = npt.NDArray[np.int64]
EvaluateBatch = Callable[[Any], object]
"""What is done with a batch: wholly, or not at all where memory is refused."""


@runtime_checkable
class SplittableEvaluation(Protocol):
    """A loader that gives the examples of an evaluation's batch once more."""

    def evaluation_ids(self, number: int) -> Numbers: ...
    def collate(self, ids: Numbers) -> Any: ...


def evaluate_in_halves(loader: object, number: int, batch: Any, evaluate: EvaluateBatch) -> None:
    """See this rank's batch of that number; where memory refuses, its halves, and so on."""
    failure = try_evaluate(evaluate, batch)
    if failure:
        ids = (
            loader.evaluation_ids(number)
            if isinstance(loader, SplittableEvaluation)
            else np.zeros(1, np.int64)
        )
        evaluate_halves(loader, ids, evaluate, failure)


def try_evaluate(evaluate: EvaluateBatch, batch: Any) -> str:
    """What memory said where it refused; behind this the tensors of the attempt are gone."""
    try:
        evaluate(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return first_line(error)
    return ""


def evaluate_halves(loader: Any, ids: Numbers, evaluate: EvaluateBatch, failure: str) -> None:
    if len(ids) < 2:
        raise ToolkitError(
            f"an example must fit into memory to be evaluated, but one did not ({failure}). Lower "
            f"--tokens-per-sample."
        )
    for half in np.array_split(ids, 2):
        failure = try_evaluate(evaluate, loader.collate(half))
        if failure:
            evaluate_halves(loader, half, evaluate, failure)


READ_INTERVAL = 64
MAX_LOG_PERPLEXITY = 700.0
"""Of a perplexity's logarithm: exp of more is no number."""
Floats = npt.NDArray[np.float64]


@runtime_checkable
class EvaluationLoader(Protocol):
    def evaluation(self) -> Iterator[Any]: ...


class EvaluationTotals:
    """Numerators, denominators and histograms by name, read from the device now and then."""

    def __init__(self) -> None:
        self.numbers: dict[str, Floats] = {}
        self.pending: list[tuple[str, Tensor | float]] = []

    def add(self, found: Mapping[str, Tensor | float]) -> None:
        self.pending += found.items()
        if len(self.pending) >= READ_INTERVAL * len(found):
            self.read()

    def read(self) -> dict[str, Floats]:
        tensors = [torch.as_tensor(value).double().cpu() for _, value in self.pending]
        for (name, _), value in zip(self.pending, tensors, strict=True):
            self.numbers[name] = np.asarray(self.numbers.get(name, 0.0) + value.numpy())
        self.pending = []
        return self.numbers

    def sum_over_ranks(self, world: World) -> dict[str, Floats]:
        """The sums of all ranks; one that had no batch has no names either."""
        summed: dict[str, Floats] = {}
        mine = {name: numbers.tolist() for name, numbers in self.read().items()}
        for text in world.all_gather(json.dumps(mine)):
            for name, value in json.loads(text).items():
                summed[name] = np.asarray(summed.get(name, 0.0) + np.asarray(value))
        return summed


def evaluate_model(
    learner: Learner,
    criterion: Criterion,
    loader: EvaluationLoader,
    *,
    examples: int,
    world: World,
    precision: Precision,
    on_progress: Callable[[int], object] = lambda examples: None,
    collector: PredictionCollector | None = None,
) -> Metrics:
    """Losses, perplexity and the task's figures; `examples` is how many the split holds.

    `told` hears of the examples of each batch of this rank, `answers` of what was predicted.
    """
    learner.eval()
    totals = EvaluationTotals()

    def see(batch: Batch) -> None:
        moved = to_device(batch, world.device)
        totals.add(batch_statistics(learner, criterion, moved, precision, collector))
        on_progress(batch.sentences)

    with torch.no_grad():
        for number, batch in enumerate(loader.evaluation()):
            if is_sharded(learner):  # all ranks must compute equally many batches
                see(batch)
            else:
                evaluate_in_halves(loader, number, batch, see)
    sums = totals.sum_over_ranks(world)
    seen = round(float(sums.pop("examples", 0.0)))
    assert seen == examples, f"evaluation saw {seen} examples of a split that holds {examples}"
    task = learner.task
    found = compute_metrics(sums, task.coefficients, perplexity=task.reports_perplexity)
    if collector:
        collector.sync(world)
        found |= collector.compute()
    return {**found, "examples": seen}


def batch_statistics(
    learner: Learner,
    criterion: Criterion,
    batch: Batch,
    precision: Precision,
    collector: PredictionCollector | None = None,
) -> dict[str, Tensor | float]:
    """One batch's numerators ("over") and denominators ("under"), and its ranked scores."""
    with precision.autocast():
        predictions = learner(batch)
        totals = criterion(predictions)
        measured = {
            **learner.task.metrics(predictions),
            **learner.task.batch_metrics(predictions, batch),
        }
        if collector:
            collector.update(batch, predictions)
            if not is_sharded(learner):  # ranks would have to take equally many steps
                collector.update_from_encoder(learner.encoder, batch)
    found: dict[str, Tensor | float] = {"examples": float(batch.sentences)}
    for name, total in totals.items():
        found |= {f"over loss {name}": total, f"under loss {name}": batch.weights.get(name, 0.0)}
    for name, figure in measured.items():
        if isinstance(figure, Perplexity):
            found |= {f"power {name}": figure.total, f"under {name}": figure.weight}
        elif isinstance(figure, Ranking):
            found |= {f"above {name}": figure.positives, f"below {name}": figure.negatives}
        else:
            found |= {f"over {name}": figure.total, f"under {name}": figure.weight}
    return found


def compute_metrics(
    sums: Mapping[str, Floats], coefficients: Mapping[str, float], *, perplexity: bool
) -> Metrics:
    """The figures themselves; one without anything to count is left out."""
    found: dict[str, float] = {}
    for key, numbers in sums.items():
        kind, _, name = key.partition(" ")
        if kind == "over" and sums[f"under {name}"]:
            found[name] = float(numbers / sums[f"under {name}"])
        if kind == "power" and sums[f"under {name}"]:
            found[name] = math.exp(min(float(numbers / sums[f"under {name}"]), MAX_LOG_PERPLEXITY))
        if kind == "above" and (ranked := roc_auc(numbers, sums[f"below {name}"])) is not None:
            found[name] = ranked
    means = {o: found.pop(f"loss {o}") for o in coefficients if f"loss {o}" in found}
    losses = loss_metrics(means, coefficients, perplexity=perplexity) if means else {}
    return {**losses, **found}

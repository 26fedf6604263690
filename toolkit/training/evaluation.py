"""Evaluation: every example of a split exactly once, over all ranks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from toolkit.common.arrays import FloatArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.criteria import Criterion, compute_logits
from toolkit.data.loading.loader import BatchLoader
from toolkit.distributed import World
from toolkit.distributed.data_parallel import is_sharded
from toolkit.metrics.classification import roc_auc
from toolkit.optim.update import Precision
from toolkit.tasks.examples import Batch, to_device
from toolkit.tasks.learner import Learner
from toolkit.tasks.predictions import Results
from toolkit.tasks.task import Perplexity, Ranking
from toolkit.training.callbacks.logging import loss_metrics, perplexity
from toolkit.training.gradient import run_in_memory
from toolkit.training.step import Metrics


def sum_over_ranks(totals: Mapping[str, Tensor], world: World) -> dict[str, FloatArray]:
    """The sums over all ranks; a rank without a batch contributes no names."""
    summed: dict[str, FloatArray] = {}
    mine = {name: numbers.tolist() for name, numbers in totals.items()}
    for text in world.all_gather(json.dumps(mine)):
        for name, value in json.loads(text).items():
            summed[name] = np.asarray(summed.get(name, 0.0) + np.asarray(value))
    return summed


def evaluate_model(
    learner: Learner,
    criterion: Criterion,
    loader: BatchLoader[Batch],
    *,
    examples: int,
    world: World,
    precision: Precision,
    on_progress: Callable[[int], object] = lambda examples: None,
    results: Results[Batch, Any] | None = None,
) -> Metrics:
    """Losses, perplexity and the task's metrics of a split of `examples` examples.

    `on_progress` gets this rank's number of examples of each batch, `results` the predictions.
    """
    learner.eval()
    totals: dict[str, Tensor] = {}  # numerators, denominators and histograms, on the device

    def evaluate(batch: Batch) -> None:
        learner.encoder.check_ids(batch.inputs)
        moved = to_device(batch, world.device, packs=learner.encoder.uses_packing)
        for name, value in batch_statistics(learner, criterion, moved, precision, results).items():
            number = torch.as_tensor(value, dtype=torch.float64, device=world.device)
            totals[name] = totals[name] + number if name in totals else number
        on_progress(batch.sentences)

    with torch.no_grad():
        for number, batch in enumerate(loader.evaluation()):
            if is_sharded(learner):  # all ranks must compute equally many batches
                evaluate(batch)
            else:
                evaluate_in_parts(loader, batch, partial(loader.evaluation_ids, number), evaluate)
    sums = sum_over_ranks(totals, world)
    seen = round(float(sums.pop("examples", 0.0)))
    assert seen == examples, f"evaluation saw {seen} examples of a split that holds {examples}"
    task = learner.task
    metrics = compute_metrics(sums, task.coefficients, with_perplexity=task.reports_perplexity)
    if results:
        results.sync(world)
        metrics |= results.metrics()
    return {**metrics, "examples": seen}


def evaluate_in_parts(
    loader: BatchLoader[Batch],
    batch: Batch,
    ids: Callable[[], IntArray],
    evaluate: Callable[[Batch], object],
) -> None:
    """Evaluate a batch; after running out of memory its halves, their halves, and so on. Then
    `evaluate` must have had no effect.
    """
    _, failure = run_in_memory(lambda: evaluate(batch))
    if not failure:
        return
    if len(examples := ids()) < 2:
        raise ToolkitError(
            f"Evaluation ran out of memory with a single example ({failure}). Lower "
            f"--tokens-per-sample."
        )
    for half in np.array_split(examples, 2):
        evaluate_in_parts(loader, loader.collate(half), partial(np.asarray, half), evaluate)


def batch_statistics(
    learner: Learner,
    criterion: Criterion,
    batch: Batch,
    precision: Precision,
    results: Results[Batch, Any] | None = None,
) -> dict[str, Tensor | float]:
    """One batch's numerators ("over"), denominators ("under") and histograms ("above", "below")."""
    with precision.autocast():
        predictions = compute_logits(learner(batch))
        totals = criterion(predictions)
        task_metrics = learner.task.metrics(predictions, batch)
        if results:
            if not is_sharded(learner):  # ranks would have to take equally many steps
                results.update_from_encoder(learner.encoder, batch)
            results.update(batch, predictions)  # last: nothing may run out of memory after it
    sums: dict[str, Tensor | float] = {"examples": float(batch.sentences)}
    for name, total in totals.items():
        sums |= {f"over loss {name}": total, f"under loss {name}": batch.weights.get(name, 0.0)}
    for name, metric in task_metrics.items():
        if isinstance(metric, Ranking):
            sums |= {f"above {name}": metric.positives, f"below {name}": metric.negatives}
        else:
            kind = "power" if isinstance(metric, Perplexity) else "over"
            sums |= {f"{kind} {name}": metric.total, f"under {name}": metric.weight}
    return sums


def first_batch(learner: Learner, loader: BatchLoader[Batch]) -> Batch:
    """The first example, as in evaluation, on the learner's device."""
    device = learner.encoder.token_embedding.weight.device
    example = loader.collate(np.zeros(1, np.int64))
    return to_device(example, device, packs=learner.encoder.uses_packing)


@torch.no_grad()
def metric_names(
    learner: Learner,
    criterion: Criterion,
    loader: BatchLoader[Batch],
    precision: Precision,
    results: Results[Batch, Any] | None = None,
) -> list[str]:
    """The metrics of an evaluation, as its first example shows."""
    task, batch = learner.eval().task, first_batch(learner, loader)
    sums = batch_statistics(learner, criterion, batch, precision, results)
    c = task.coefficients
    losses = {objective: 0.0 for objective, coefficient in c.items() if coefficient}
    names = [*loss_metrics(losses, c, with_perplexity=task.reports_perplexity)]
    parts = [key.split(" ") for key in sums if key.startswith(("over ", "power ", "above "))]
    names += [words[1] for words in parts if len(words) == 2]
    return [*names, *results.metrics()] if results else names


def compute_metrics(
    sums: Mapping[str, FloatArray], coefficients: Mapping[str, float], *, with_perplexity: bool
) -> Metrics:
    """Ratios, perplexities and areas under ROC curves; NaN if undefined, as precision without
    positive predictions. A split without labels has none of them.
    """
    metrics: dict[str, float] = {}
    for key, total in sums.items():
        kind, _, name = key.partition(" ")
        if kind in ("over", "power"):
            weight = float(sums[f"under {name}"])
            mean = float(total) / weight if weight else math.nan
            metrics[name] = mean if kind == "over" else perplexity(mean)
        if kind == "above":
            metrics[name] = roc_auc(total, sums[f"below {name}"])
    losses = {o: metrics.pop(f"loss {o}") for o in coefficients if f"loss {o}" in metrics}
    weights = {o: sums[f"under loss {o}"] for o in losses}
    if not any(weights.values()):
        return {name: value for name, value in metrics.items() if not math.isnan(value)}
    means = {o: mean for o, mean in losses.items() if coefficients[o] or weights[o]}
    return {**loss_metrics(means, coefficients, with_perplexity=with_perplexity), **metrics}

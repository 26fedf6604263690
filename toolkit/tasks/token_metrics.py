"""Metrics of predicted tokens."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.criteria import IGNORED, Prediction
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.tasks.task import Metric, Perplexity, Ratio


def token_metrics(prediction: Prediction) -> dict[str, Metric]:
    """nll, ppl = exp(nll) and accuracy."""
    total, correct = negative_log_likelihood(prediction), accuracy(prediction)
    return {
        "nll": Ratio(total, correct.weight),
        "ppl": Perplexity(total, correct.weight),
        "accuracy": correct,
    }


def accuracy(prediction: Prediction) -> Ratio:
    """Fraction of the targets that are the most probable class; IGNORED ones do not count."""
    logits, targets = prediction
    correct = (logits.argmax(-1) == targets).sum()
    return Ratio(correct.float(), (targets != IGNORED).sum().float())


@torch.no_grad()
def negative_log_likelihood(prediction: Prediction) -> Float[Tensor, ""]:
    """-sum_n log p_n(target_n), without label smoothing."""
    return CrossEntropy(CrossEntropyConfig()).total(prediction)

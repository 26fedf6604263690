"""Figures of symbols that are told one after the other."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.criteria import IGNORED, Classes
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.tasks.task import Metric, Perplexity, Ratio


def token_metrics(prediction: Classes) -> dict[str, Metric]:
    """nll, ppl = exp(nll), and the share of places where the most probable symbol is right."""
    logits, targets = prediction
    count = (targets != IGNORED).sum().float()
    total = negative_log_likelihood(prediction)
    right = (logits.argmax(-1) == targets).sum().float()
    return {
        "nll": Ratio(total, count),
        "ppl": Perplexity(total, count),
        "accuracy": Ratio(right, count),
    }


@torch.no_grad()
def negative_log_likelihood(prediction: Classes) -> Float[Tensor, ""]:
    """-sum_n log p_n(target_n), without label smoothing."""
    return CrossEntropy(CrossEntropyConfig()).classes(prediction)

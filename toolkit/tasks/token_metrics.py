"""Metrics of predicted tokens.

N targets   E width of the table   V vocabulary
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from toolkit.criteria import IGNORED, Prediction
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.tasks.task import Metric, Perplexity, Ratio, TargetScores

ROWS_PER_CHUNK = 512
"""Rows of states whose scores over the vocabulary exist at a time."""


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


def score_targets(
    states: Float[Tensor, "N E"],
    table: Float[Tensor, "V E"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
) -> TargetScores:
    """log softmax(states @ table.T + bias) at the targets, in fp32 at least.

    bf16 would round differences between two sentences to ties.
    """
    with torch.autocast(states.device.type, enabled=False):
        dtype = torch.promote_types(states.dtype, torch.float32)
        x, weight = states.to(dtype), table.to(dtype)
        offset = None if bias is None else bias.to(dtype)
        chunks = zip(x.split(ROWS_PER_CHUNK), targets.split(ROWS_PER_CHUNK), strict=True)
        found = [score_rows(F.linear(rows, weight, offset), wanted) for rows, wanted in chunks]
    return TargetScores(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def score_rows(scores: Float[Tensor, "n V"], targets: Int[Tensor, " n"]) -> TargetScores:
    """log p of the targets by the scores of all tokens."""
    of_targets = scores.gather(1, targets[:, None])[:, 0]
    return TargetScores(of_targets - scores.logsumexp(1), of_targets == scores.amax(1))

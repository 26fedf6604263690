"""Area under the ROC curve (AUC) from histograms, which can be summed over batches and ranks.

Scores in one bin count as equal. With Y positive and N negative scores, y_b and n_b of them in bin
b, the error is at most sum_b y_b n_b / (2 Y N), and far smaller if scores are spread evenly within
the bins.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from toolkit.common.arrays import FloatArray

BINS = 8192
MAX_LOGIT = 16.0
"""Logits beyond +-16 are counted in the outermost bins."""


def score_histogram(
    scores: Float[Tensor, " N"], included: Bool[Tensor, " N"]
) -> Float[Tensor, " bins"]:
    """Number of included scores in each of BINS equal bins."""
    positions = (scores.float().nan_to_num() / MAX_LOGIT + 1) * (BINS / 2)
    bins = positions.clamp(0, BINS - 1).long()
    return torch.bincount(bins, weights=included.double(), minlength=BINS).double()


def roc_auc(positives: FloatArray, negatives: FloatArray) -> float | None:
    """P(positive score > negative score) + P(equal) / 2; None without positives or negatives."""
    pairs = float(positives.sum()) * float(negatives.sum())
    below = negatives.cumsum() - negatives / 2
    return float((positives * below).sum()) / pairs if pairs else None


def max_error(positives: FloatArray, negatives: FloatArray) -> float:
    """Maximum error of `roc_auc`."""
    return float((positives * negatives).sum()) / float(2 * positives.sum() * negatives.sum())

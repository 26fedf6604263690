"""The area under the ROC curve from histograms, which add up over batches and ranks.

Scores of one bin count as equal. For Y positive and N negative scores, y_b and n_b of them in bin
b, the area is therefore off by at most sum_b y_b n_b / (2 Y N), and for scores that spread evenly
within the bins by far less.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from jaxtyping import Bool, Float
from torch import Tensor

BINS = 8192
MAX_LOGIT = 16.0
"""Scores, which are logits, beyond +- 16 are counted in the outermost bins."""

Counts = npt.NDArray[Any]


def score_histogram(
    scores: Float[Tensor, " N"], counted: Bool[Tensor, " N"]
) -> Float[Tensor, " bins"]:
    """How many of the scores that count lie in each of BINS equal bins."""
    places = (scores.float().nan_to_num() / MAX_LOGIT + 1) * (BINS / 2)
    bins = places.clamp(0, BINS - 1).long()
    return torch.bincount(bins, weights=counted.double(), minlength=BINS).double()


def roc_auc(positives: Counts, negatives: Counts) -> float | None:
    """P(a positive scores more than a negative) + P(equal) / 2; None where a kind is missing."""
    pairs = float(positives.sum()) * float(negatives.sum())
    below = negatives.cumsum() - negatives / 2
    return float((positives * below).sum()) / pairs if pairs else None


def max_error(positives: Counts, negatives: Counts) -> float:
    """By how much `area` may be off at most."""
    return float((positives * negatives).sum()) / float(2 * positives.sum() * negatives.sum())

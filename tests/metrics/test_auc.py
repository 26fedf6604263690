from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from toolkit.metrics.classification import BINS, MAX_LOGIT, roc_auc, score_histogram


def counts(scores, answers):
    scores = torch.as_tensor(scores)
    yes = torch.as_tensor(answers).bool()
    return score_histogram(scores, yes).numpy(), score_histogram(scores, ~yes).numpy()


@pytest.mark.parametrize("apart", [0.0, 0.7, 3.0])
def test_roc_auc_equals_scikit_learn_within_its_error(apart):
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    answers = random.random(5000) < 0.1
    scores = random.normal(size=5000) - 3 + apart * answers
    positives, negatives = counts(scores, answers)
    pairs = positives.sum() * negatives.sum()
    error = (positives * negatives).sum() / (2 * pairs)  # pairs within a bin
    assert error < 1e-3
    wanted = metrics.roc_auc_score(answers, scores)
    assert abs(roc_auc(positives, negatives) - wanted) < error / 10


def test_roc_auc_counts_equal_scores_half():
    assert roc_auc(*counts([0.0, 0.0, 1.0], [1, 0, 1])) == 0.75


def test_histogram_counts_extreme_logits_in_the_outermost_bins():
    positives, negatives = counts([1e9, MAX_LOGIT, -torch.inf, torch.nan], [1, 1, 0, 0])
    assert positives[BINS - 1] == 2 and negatives[0] == negatives[BINS // 2] == 1
    assert roc_auc(positives, negatives) == 1.0


def test_roc_auc_is_nan_without_both_classes():
    assert math.isnan(roc_auc(*counts([1.0, 2.0], [1, 1])))
    assert math.isnan(roc_auc(*counts([], [])))

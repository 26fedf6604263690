"""SQuAD's official figures: exact match and F1 (Rajpurkar et al. 2016, 2018, evaluation scripts).

Answers are compared in lower case, without punctuation, articles and superfluous white space.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)

Numbers = npt.NDArray[np.float64]


def normalize_answer(answer: str) -> str:
    """What is compared of it; the order of the steps matters."""
    bare = answer.lower().translate(PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", bare).split())


def exact_match(prediction: str, reference: str) -> float:
    return float(normalize_answer(prediction) == normalize_answer(reference))


def word_f1(prediction: str, reference: str, *, none_allowed: bool) -> float:
    """2 p r / (p + r), p and r the shares of the words of each that the other has too.

    Where one has no words it is 0; with SQuAD 2.0's rules 1 if neither has any.
    """
    a, b = normalize_answer(prediction).split(), normalize_answer(reference).split()
    if none_allowed and not (a and b):
        return float(a == b)
    common = (Counter(a) & Counter(b)).total()
    if not common:
        return 0.0
    precision, recall = common / len(a), common / len(b)
    return 2 * precision * recall / (precision + recall)


def best_scores(
    prediction: str, references: Sequence[str], *, none_allowed: bool
) -> tuple[float, float]:
    """Exact match and F1 with the right answer that each is largest for.

    With SQuAD 2.0's rules answers that have no words do not count, and without any the right one is
    to give none.
    """
    if none_allowed:
        references = [answer for answer in references if normalize_answer(answer)] or [""]
    if not references:
        return math.nan, math.nan
    return (
        max(exact_match(prediction, answer) for answer in references),
        max(word_f1(prediction, answer, none_allowed=none_allowed) for answer in references),
    )


def best_threshold(
    no_answer_scores: Numbers, scores: Numbers, empty_scores: Numbers
) -> tuple[float, float]:
    """The threshold above which a doubt means that there is no answer, and the mean score with it.

    `scores` are those of the answers given at all doubts, `none` those of giving none. Of equally
    good thresholds the lowest; equal doubts are decided alike, so that the mean can be had.
    """
    order = np.argsort(no_answer_scores, kind="stable")
    sorted_doubts = no_answer_scores[order]
    gains = np.concatenate([[0.0], np.cumsum((scores - empty_scores)[order])])
    last = np.append(np.diff(sorted_doubts) > 0, True)
    possible = np.concatenate([[0], 1 + np.flatnonzero(last)])
    best = possible[gains[possible].argmax()]
    lowest = np.nextafter(np.float32(sorted_doubts[0]), np.float32(-np.inf))
    threshold = sorted_doubts[best - 1] if best else lowest
    return float(threshold), float((empty_scores.sum() + gains[best]) / len(no_answer_scores))

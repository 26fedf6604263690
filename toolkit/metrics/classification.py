"""Classification and regression metrics of a split, and precision, recall and F1 of spans.

y labels   x predictions   C[y, x] number of items of class y that were predicted as class x

The area under the ROC curve (AUC) is computed from histograms, which can be summed over batches and
ranks. Scores in one bin count as equal: the error is at most sum_b y_b n_b / (2 Y N), with y_b of Y
positive and n_b of N negative scores in bin b.

A word's tag is O, or a prefix and the type of its span, as in B-NP and I-NP. One rule reads IOB1,
IOB2 (BIO), IOE, BIOES and BILOU, with the counts of the CoNLL script conlleval and of seqeval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from toolkit.common.arrays import BoolArray, FloatArray, IntArray
from toolkit.common.errors import ToolkitError

Numbers = IntArray | FloatArray


def accuracy(labels: Numbers, predictions: Numbers) -> float:
    """Share of equal labels and predictions; NaN without any."""
    return float(np.mean(labels == predictions)) if len(labels) else nan


def f1(labels: Numbers, predictions: Numbers, positive: int = 1) -> float:
    """2 C[1, 1] / (sum_x C[1, x] + sum_y C[y, 1]) (van Rijsbergen 1979); 0 without positives."""
    hits = int(np.sum((labels == positive) & (predictions == positive)))
    total = int(np.sum(labels == positive) + np.sum(predictions == positive))
    return 2 * hits / total if total else 0.0


def matthews(labels: Numbers, predictions: Numbers) -> float:
    """(c s - sum_k t_k p_k) / sqrt((s^2 - sum p_k^2)(s^2 - sum t_k^2)) (Gorodkin 2004): c of s are
    correct, t_k items have class k, p_k are predicted as k. With two classes it is Matthews'
    coefficient (1975); 0 if all labels, or all predictions, are of one class.
    """
    if not len(labels):
        return nan
    classes = int(max(labels.max(), predictions.max())) + 1
    t, p = (np.bincount(it, minlength=classes).astype(object) for it in (labels, predictions))
    correct, size = int(np.sum(labels == predictions)), len(labels)  # of Python: no overflow
    covariance = correct * size - t @ p
    variances = (size * size - p @ p) * (size * size - t @ t)
    return covariance / sqrt(variances) if variances else 0.0


def pearson(labels: Numbers, predictions: Numbers) -> float:
    """sum (x - mean x)(y - mean y) / (|x - mean x| |y - mean y|); NaN if undefined."""
    from scipy.stats import pearsonr  # slow to import

    return float(pearsonr(predictions, labels).statistic) if varies(labels, predictions) else nan


def spearman(labels: Numbers, predictions: Numbers) -> float:
    """Pearson's coefficient of the ranks; equal values share their mean rank (Spearman 1904)."""
    from scipy.stats import spearmanr

    return float(spearmanr(predictions, labels).statistic) if varies(labels, predictions) else nan


def varies(*columns: Numbers) -> bool:
    """Whether each column has finite values, and two different ones."""
    return all(
        len(values) and bool(np.isfinite(values).all() and (values != values[0]).any())
        for values in columns
    )


Metric = Callable[[Numbers, Numbers], float]
CLASSIFICATION_METRICS: dict[str, Metric] = {"accuracy": accuracy, "f1": f1, "matthews": matthews}
REGRESSION_METRICS: dict[str, Metric] = {"pearson": pearson, "spearman": spearman}


class ClassMetrics(NamedTuple):
    """Metrics of one class (van Rijsbergen 1979); a ratio without a denominator is 0."""

    name: str
    precision: float
    """C[c, c] / sum_y C[y, c]."""
    recall: float
    """C[c, c] / sum_x C[c, x]."""
    f1: float
    """2 P R / (P + R)."""
    support: int
    """Number of items of this class."""


def confusion_matrix(labels: IntArray, predictions: IntArray, classes: int) -> IntArray:
    """C, with a row and a column per class."""
    counts = np.bincount(labels * classes + predictions, minlength=classes * classes)
    return counts.reshape(classes, classes)


def class_metrics(counts: IntArray, names: Sequence[str]) -> list[ClassMetrics]:
    """Metrics of each class that occurs among labels or predictions."""
    return list_metrics(names, counts.diagonal(), counts.sum(1), counts.sum(0))


def list_metrics(
    names: Sequence[str], correct: IntArray, support: IntArray, predicted: IntArray
) -> list[ClassMetrics]:
    """Metrics from counts by class, of each class that occurs."""
    rows = zip(names, correct.tolist(), support.tolist(), predicted.tolist(), strict=True)
    return [compute_class_metrics(*row) for row in rows if any(row[1:])]


def compute_class_metrics(name: str, correct: int, support: int, predicted: int) -> ClassMetrics:
    """Precision, recall and F1 = 2 P R / (P + R) of one class from its counts."""
    f1 = ratio(2 * correct, support + predicted)
    return ClassMetrics(name, ratio(correct, predicted), ratio(correct, support), f1, support)


def macro_f1(counts: IntArray, names: Sequence[str]) -> float:
    """Mean F1 of the classes that occur among labels or predictions."""
    return float(np.mean([it.f1 for it in class_metrics(counts, names)]))


def ratio(part: int, whole: int) -> float:
    """part / whole; 0 if the whole is 0."""
    return part / whole if whole else 0.0


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


def roc_auc(positives: FloatArray, negatives: FloatArray) -> float:
    """P(positive score > negative score) + P(equal) / 2; NaN without positives or negatives."""
    pairs = float(positives.sum()) * float(negatives.sum())
    below = negatives.cumsum() - negatives / 2
    return float((positives * below).sum()) / pairs if pairs else nan


OUTSIDE = "O"
FIRST, LAST, INSIDE = "BSU", "ESLU", "IM"
"""Prefixes: first word of a span, last word of a span, any other. S and U are both."""


class SpanTags(NamedTuple):
    """What each of some tags says about the span of its word."""

    types: list[str]
    """Types of spans, in alphabetical order."""
    type_ids: IntArray
    """Index of each tag's type; -1 for O."""
    is_first: BoolArray
    """Whether a span starts at a word with the tag."""
    is_last: BoolArray
    """Whether a span ends at a word with the tag."""

    @classmethod
    def parse(cls, tags: Sequence[str]) -> SpanTags:
        """Raises a ToolkitError for a tag of another kind, such as a part of speech."""
        for tag in tags:
            if not is_span_tag(tag):
                raise ToolkitError(
                    f"spans require tags such as O, B-NP and I-NP, but there is {tag!r}. Select "
                    f"their column with toolkit-preprocess --tag-column, or use --task pos_tagging."
                )
        parts = [tag.partition("-") for tag in tags]
        types = sorted({name for prefix, _, name in parts if prefix != OUTSIDE})
        ids = {name: index for index, name in enumerate(types)}
        return cls(
            types,
            np.array([-1 if tag == OUTSIDE else ids[tag.partition("-")[2]] for tag in tags]),
            np.array([prefix in FIRST for prefix, _, _ in parts], bool),
            np.array([prefix in LAST for prefix, _, _ in parts], bool),
        )


def is_span_tag(tag: str) -> bool:
    """Whether a tag has the form of a span tag, such as B-PER or O."""
    return tag == OUTSIDE or tag.partition("-")[0] in (*FIRST, *LAST, *INSIDE)


def has_span_tags(tags: Sequence[str]) -> bool:
    """Whether these are O and tags of spans."""
    return OUTSIDE in tags and len(tags) > 1 and all(map(is_span_tag, tags))


class Spans(NamedTuple):
    """Spans in the order of their words."""

    starts: IntArray
    """First word of each."""
    ends: IntArray
    """Word after the last."""
    type_ids: IntArray


def find_spans(labels: IntArray, sentence_starts: BoolArray, tags: SpanTags) -> Spans:
    """The spans of words with these labels, which are indices of tags: adjacent words inside belong
    together unless the types differ, or a prefix or a sentence says that one ends or starts there.
    """
    types = tags.type_ids[labels]
    before = np.roll(labels, 1)
    starts_here = sentence_starts | tags.is_first[labels] | tags.is_last[before]
    starts = np.flatnonzero(starts_here | (types != tags.type_ids[before]))
    ends = np.append(starts, len(labels))[1:]
    inside = types[starts] >= 0
    return Spans(starts[inside], ends[inside], types[starts[inside]])


def mark_sentence_starts(lengths: IntArray) -> BoolArray:
    """Whether each word is the first of a sentence; the sentences have `lengths` words."""
    starts = np.zeros(int(lengths.sum()), bool)
    starts[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    return starts


def compute_span_metrics(true: Spans, predicted: Spans, types: Sequence[str]) -> list[ClassMetrics]:
    """Metrics of all spans, and then of each type that occurs; a correct span is equal in full."""
    _, index, other = np.intersect1d(
        true.starts, predicted.starts, assume_unique=True, return_indices=True
    )
    same_end = true.ends[index] == predicted.ends[other]
    same_type = true.type_ids[index] == predicted.type_ids[other]
    counts = [
        np.bincount(ids, minlength=len(types))
        for ids in (true.type_ids[index[same_end & same_type]], true.type_ids, predicted.type_ids)
    ]
    together = compute_class_metrics("all", *(int(it.sum()) for it in counts))
    return [together, *list_metrics(types, *counts)]


def choose(
    scores: FloatArray, answers: IntArray, tolerance: FloatArray, *, first: bool
) -> tuple[FloatArray, BoolArray]:
    """What the right one of the options, N x K, gets, and whether it shares the highest score: 1 if
    its score is the highest, and 1/n if n options have it, up to the tolerance; with `first`, the
    first of these is chosen.
    """
    best = scores >= scores.max(1, keepdims=True) - tolerance[:, None]
    rows = np.arange(len(scores))
    is_best, count = best[rows, answers], best.sum(1)
    results = best.argmax(1) == answers if first else is_best / count
    return results.astype(np.float64), is_best & (count > 1)


def stratified_error(results: FloatArray, strata: IntArray) -> float | None:
    """The standard error sqrt(sum_k n_k var_k) / N of the mean of all results, var_k the variance
    within paradigm k: paradigms are strata (Cochran 1977, section 5.3), whose differences are no
    sampling error. It is the deviation of means of bootstrap samples within paradigms, without
    their noise. None if no paradigm has two results.
    """
    within, every = 0.0, np.unique(strata)
    if len(every) == len(strata):
        return None
    for stratum in every:
        part = results[strata == stratum]
        within += float(((part - part.mean()) ** 2).sum())
    return float(np.sqrt(within)) / len(results)

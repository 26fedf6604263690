"""BLEU, chrF and TER as computed by sacreBLEU (Post 2018)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

DEFAULT_METRICS = ("bleu", "chrf")
ALL_METRICS = ("bleu", "chrf", "ter")


class CorpusScore(NamedTuple):
    """A corpus-level score with its signature: version, case, tokenization."""

    name: str
    value: float
    signature: str
    detail: str = ""
    """Details such as BLEU's n-gram precisions."""


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    names: Sequence[str] = DEFAULT_METRICS,
    lowercase: bool = False,
) -> list[CorpusScore]:
    """The named scores, from 0 to 100 (TER: 0 or more), with one reference per hypothesis."""
    assert len(hypotheses) == len(references), "every hypothesis has one reference"
    scores = []
    for name in names:
        metric = build_metric(name, lowercase)
        score = metric.corpus_score(list(hypotheses), [list(references)])
        signature, detail = str(metric.get_signature()), getattr(score, "_verbose", "") or ""
        scores.append(CorpusScore(name, float(score.score), signature, str(detail)))
    return scores


def build_metric(name: str, lowercase: bool) -> Any:
    """sacreBLEU's metric with its defaults; TER is always lowercased."""
    metrics: Any = importlib.import_module("sacrebleu.metrics")  # takes a second to import
    if name == "bleu":
        return metrics.BLEU(lowercase=lowercase)
    if name == "chrf":
        return metrics.CHRF(lowercase=lowercase)
    return metrics.TER()

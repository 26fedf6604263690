"""BLEU, chrF and TER of translations against references, as sacreBLEU counts them (Post 2018)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

DEFAULT_METRICS = ("bleu", "chrf")
ALL_METRICS = ("bleu", "chrf", "ter")


class CorpusScore(NamedTuple):
    """A score over all sentences, with how it was counted: versions, case, tokenization."""

    name: str
    value: float
    signature: str
    detail: str = ""
    """What else there is to tell, such as the precisions of BLEU's n-grams."""


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    names: Sequence[str] = DEFAULT_METRICS,
    lowercase: bool = False,
) -> list[CorpusScore]:
    """The scores named, 0 to 100 and for ter 0 or more; one reference for each hypothesis."""
    assert len(hypotheses) == len(references), "every hypothesis has one reference"
    found = []
    for name in names:
        metric = build_metric(name, lowercase)
        score = metric.corpus_score(list(hypotheses), [list(references)])
        signature, told = str(metric.get_signature()), getattr(score, "_verbose", "") or ""
        found.append(CorpusScore(name, float(score.score), signature, str(told)))
    return found


def build_metric(name: str, lowercase: bool) -> Any:
    """sacreBLEU's object for one score, with its defaults: TER is in lower case anyway."""
    metrics: Any = importlib.import_module("sacrebleu.metrics")  # a second, for scoring alone

    if name == "bleu":
        return metrics.BLEU(lowercase=lowercase)
    if name == "chrf":
        return metrics.CHRF(lowercase=lowercase)
    return metrics.TER()

"""BLEU, chrF and TER as computed by sacreBLEU (Post 2018)."""

from __future__ import annotations

import importlib
import logging
import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from toolkit.common.arrays import FloatArray
from toolkit.common.errors import ToolkitError

log = logging.getLogger(__name__)

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
    language: str = "",
    tokenize: str = "auto",
    lowercase: bool = False,
) -> list[CorpusScore]:
    """The named scores, from 0 to 100 (TER: 0 or more), with one reference per hypothesis.

    `tokenize` is sacreBLEU's tokenization for BLEU; auto: its choice for the `language`. Pieces of
    words that end in @@, those of subword-nmt, are joined.
    """
    assert len(hypotheses) == len(references), "every hypothesis has one reference"
    texts, references = ([join_pieces(it) for it in lines] for lines in (hypotheses, references))
    metrics: Any = importlib.import_module("sacrebleu.metrics")  # takes a second to import
    build = {
        "bleu": lambda: build_bleu(metrics.BLEU, language, tokenize, lowercase=lowercase),
        "chrf": lambda: metrics.CHRF(lowercase=lowercase),
        "ter": metrics.TER,  # it always ignores case
    }
    scores = []
    for name in names:
        metric = build[name]()
        score = metric.corpus_score(texts, [references])
        signature, detail = str(metric.get_signature()), getattr(score, "_verbose", "") or ""
        scores.append(CorpusScore(name, float(score.score), signature, str(detail)))
    return scores


def join_pieces(text: str) -> str:
    """The text with the pieces of words joined, as by fairseq's --remove-bpe."""
    return f"{text} ".replace("@@ ", "").rstrip(" ")


CODES = {"zho": "zh", "cmn": "zh", "yue": "zh", "jpn": "ja", "kor": "ko"}
"""Other codes of the languages for which sacreBLEU has a tokenization."""


def build_bleu(bleu: Any, language: str, tokenize: str, *, lowercase: bool) -> Any:
    """BLEU in words of the language; in characters where their tokenizer is not installed."""
    code = re.split("[-_]", language.lower())[0]
    code = CODES.get(code, code)
    try:
        if tokenize != "auto":
            return bleu(lowercase, tokenize=tokenize)
        return bleu(lowercase, trg_lang=code)
    except RuntimeError as error:
        install = f"pip install 'sacrebleu[{code if tokenize == 'auto' else tokenize[:2]}]'"
        if tokenize != "auto":
            raise ToolkitError(
                f"--eval-bleu-tokenize {tokenize} needs a tokenizer that is not installed. Run "
                f"{install}, or choose char."
            ) from error
        log.warning("BLEU is computed on characters (tok:char); for words, run %s.", install)
        return bleu(lowercase, tokenize="char")


ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(answer: str) -> str:
    """The text to compare; the order of the steps matters."""
    bare = answer.lower().translate(PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", bare).split())


def exact_match(prediction: str, reference: str) -> float:
    """1 if the normalized answers are equal, else 0."""
    return float(normalize_answer(prediction) == normalize_answer(reference))


def word_f1(prediction: str, reference: str, *, none_allowed: bool) -> float:
    """2 p r / (p + r) with precision p and recall r over the words; 0 if one of the two has none,
    under SQuAD 2.0's rules 1 if neither has any.
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
    """Maximum exact match and maximum F1 over the reference answers. Under SQuAD 2.0's rules those
    without words are ignored; without any the correct prediction is the empty one.
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
    no_answer_scores: FloatArray, scores: FloatArray, empty_scores: FloatArray
) -> tuple[float, float]:
    """No-answer score above which to predict no answer, the lowest of equally good ones, and the
    mean score with it. `scores` are those of the predicted answers, `empty_scores` of predicting
    none.
    """
    order = np.argsort(no_answer_scores, kind="stable")
    sorted_scores = no_answer_scores[order]
    gains = np.concatenate([[0.0], np.cumsum((scores - empty_scores)[order])])
    last = np.append(np.diff(sorted_scores) > 0, True)
    possible = np.concatenate([[0], 1 + np.flatnonzero(last)])
    best = possible[gains[possible].argmax()]
    lowest = np.nextafter(np.float32(sorted_scores[0]), np.float32(-np.inf))
    threshold = sorted_scores[best - 1] if best else lowest
    return float(threshold), float((empty_scores.sum() + gains[best]) / len(no_answer_scores))

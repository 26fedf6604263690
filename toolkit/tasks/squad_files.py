"""Answers as SQuAD's evaluation takes them, an object of ids and texts; and the n-best beside."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.tasks.answers import refuse_equal

ANSWERS, NBEST, ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


class Given(NamedTuple):
    """What is answered to one question."""

    texts: list[str]
    """The best answers, no text twice; none where the passage has no token."""
    scores: list[float]
    doubt: float
    """Score of no answer less that of the best one; infinite where there is none."""

    def text(self, threshold: float | None) -> str:
        """The best, or nothing where it is too doubtful."""
        if not self.texts or (threshold is not None and self.doubt > threshold):
            return ""
        return self.texts[0]


def write_answers(
    path: Path, names: Sequence[str], given: Sequence[Given], threshold: float | None
) -> None:
    """To a file the answers; into a folder also the n-best, and the doubts where there are any."""
    refuse_equal(names, "id")
    answers = {n: it.text(threshold) for n, it in zip(names, given, strict=True)}
    try:
        if not path.is_dir():
            write(path, answers)
            return
        write(path / ANSWERS, answers)
        write(path / NBEST, {n: nbest(it) for n, it in zip(names, given, strict=True)})
        if threshold is not None:
            doubts = ((n, it.doubt) for n, it in zip(names, given, strict=True))
            write(path / ODDS, {n: doubt if math.isfinite(doubt) else 1e9 for n, doubt in doubts})
    except OSError as error:
        raise ToolkitError(
            f"predictions must go where files can be written, but {path} cannot: "
            f"{error.strerror}. Choose another --predictions."
        ) from error


def write(path: Path, held: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(held, ensure_ascii=False, indent=1) + "\n", "utf-8", "replace")


def nbest(it: Given) -> list[dict[str, Any]]:
    """Each text with its share of the probability of them all: a softmax over their scores."""
    top = max(it.scores, default=0.0)
    odds = [math.exp(score - top) for score in it.scores]
    rows = zip(it.texts, odds, it.scores, strict=True)
    return [
        {"text": text, "probability": part / sum(odds), "score": score}
        for text, part, score in rows
    ]

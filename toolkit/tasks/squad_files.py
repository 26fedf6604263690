"""Answers as SQuAD's evaluation takes them, an object of ids and texts; and the n-best beside."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from toolkit.common.errors import ToolkitError

ANSWERS, NBEST, ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


class Answered(Protocol):
    @property
    def texts(self) -> list[str]: ...
    @property
    def scores(self) -> list[float]: ...
    @property
    def doubt(self) -> float: ...
    def text(self, threshold: float | None) -> str: ...


def write_answers(
    path: Path, names: Sequence[str], given: Sequence[Answered], threshold: float | None
) -> None:
    """To a file the answers; into a folder also the n-best, and the doubts where there are any."""
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


def nbest(it: Answered) -> list[dict[str, Any]]:
    """Each text with its share of the probability of them all: a softmax over their scores."""
    top = max(it.scores, default=0.0)
    odds = [math.exp(score - top) for score in it.scores]
    rows = zip(it.texts, odds, it.scores, strict=True)
    return [
        {"text": text, "probability": part / sum(odds), "score": score}
        for text, part, score in rows
    ]

"""The answer given to every question of a split: the official figures and the files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Prediction
from toolkit.data.formats.qa.answer_spans import character_span
from toolkit.data.formats.qa.windows import max_context_tokens
from toolkit.distributed import World
from toolkit.metrics.squad import best_scores, best_threshold
from toolkit.tasks.predictions import PredictionCollector, check_unique_ids
from toolkit.tasks.squad.examples import END, START, SquadBatch, SquadExamples
from toolkit.tasks.squad.span_search import best_spans

ANSWERS, NBEST, ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


class QuestionPrediction(NamedTuple):
    """What is answered to one question."""

    texts: list[str]
    """The best answers, no text twice; none where the passage has no token."""
    scores: list[float]
    null_odds: float
    """Score of no answer less that of the best one; infinite where there is none."""

    def text(self, threshold: float | None) -> str:
        """The best, or nothing where it is too doubtful."""
        if not self.texts or (threshold is not None and self.null_odds > threshold):
            return ""
        return self.texts[0]


def write_answers(
    path: Path, names: Sequence[str], given: Sequence[QuestionPrediction], threshold: float | None
) -> None:
    """To a file the answers; into a folder also the n-best, and the doubts where there are any."""
    check_unique_ids(names, "id")
    answers = {n: it.text(threshold) for n, it in zip(names, given, strict=True)}
    try:
        if not path.is_dir():
            write_json(path, answers)
            return
        write_json(path / ANSWERS, answers)
        write_json(path / NBEST, {n: format_nbest(it) for n, it in zip(names, given, strict=True)})
        if threshold is not None:
            doubts = ((n, it.null_odds) for n, it in zip(names, given, strict=True))
            write_json(
                path / ODDS, {n: doubt if math.isfinite(doubt) else 1e9 for n, doubt in doubts}
            )
    except OSError as error:
        raise ToolkitError(
            f"predictions must go where files can be written, but {path} cannot: "
            f"{error.strerror}. Choose another --predictions."
        ) from error


def write_json(path: Path, held: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(held, ensure_ascii=False, indent=1) + "\n", "utf-8", "replace")


def format_nbest(it: QuestionPrediction) -> list[dict[str, Any]]:
    """Each text with its share of the probability of them all: a softmax over their scores."""
    top = max(it.scores, default=0.0)
    odds = [math.exp(score - top) for score in it.scores]
    rows = zip(it.texts, odds, it.scores, strict=True)
    return [
        {"text": text, "probability": part / sum(odds), "score": score}
        for text, part, score in rows
    ]


TUNED_ON = "valid"
"""The split that says how doubtful an answer must be to be none."""
Scores = npt.NDArray[np.float64]


class SquadCollector(PredictionCollector):
    def __init__(self, examples: SquadExamples, threshold: Tensor) -> None:
        self.examples, self.split = examples, examples.split
        self._threshold = threshold
        count, kept = len(examples.lengths), examples.config.nbest
        self.seen = np.zeros(count, bool)
        self.scores = np.full((count, kept), -np.inf, np.float32)
        """Of the best answers of each window."""
        self.tokens = np.zeros((count, kept, 2), np.int64)
        """First and last token of each, in the passage."""
        self.null_scores = np.full(count, np.inf, np.float32)
        """Score of [CLS] in each window."""

    def update(self, batch: SquadBatch, predictions: Mapping[str, Prediction]) -> None:
        numbers = batch.window_ids.cpu().numpy()
        if numbers[0] < 0:
            return
        (begin, _), (end, _) = predictions[START], predictions[END]
        may_begin = torch.from_numpy(self.start_mask(batch)).to(begin.device)
        c = self.examples.config
        scores, *places = best_spans(
            begin, end, may_begin, batch.allowed, longest=c.answer_tokens, count=c.nbest
        )
        found = scores.shape[1]
        self.scores[numbers, :found] = scores.cpu().numpy()
        first = self.examples.windows.starts[numbers] - batch.passage_starts.cpu().numpy()
        tokens = torch.stack(places, -1).cpu().numpy() + first[:, None, None]
        self.tokens[numbers, :found] = tokens
        self.null_scores[numbers] = (begin[:, 0].float() + end[:, 0].float()).cpu().numpy()
        self.seen[numbers] = True

    def start_mask(self, batch: SquadBatch) -> npt.NDArray[np.bool_]:
        """Where answers may begin: a token of several windows counts where most is around it.

        So no answer is found twice, and none where little of its passage is seen.
        """
        own = np.zeros(batch.allowed.shape, bool)
        firsts = batch.passage_starts.tolist()
        for row, (window, first) in enumerate(zip(batch.window_ids.tolist(), firsts, strict=True)):
            flags = max_context_tokens(self.examples.windows, window)
            own[row, first : first + len(flags)] = flags
        return own

    def sync(self, world: World) -> None:
        windows = np.flatnonzero(self.seen)
        parts: list[npt.NDArray[Any]] = [self.scores, self.tokens, self.null_scores]
        parts = parts if world.size > 1 else []
        mine = json.dumps([windows.tolist(), *(part[windows].tolist() for part in parts)])
        for text in world.all_gather(mine):
            places, *values = json.loads(text)
            self.seen[places] = True
            for part, value in zip(parts, values, strict=True):
                part[places] = np.array(value, part.dtype).reshape(-1, *part.shape[1:])
        assert self.seen.all(), "every window is in one batch"

    @cached_property
    def predicted(self) -> list[QuestionPrediction]:
        """For each question the best answers over all its windows."""
        return [self.predict_question(question) for question in range(len(self.split))]

    def predict_question(self, question: int) -> QuestionPrediction:
        firsts = self.examples.windows.first_windows
        windows = slice(firsts[question], firsts[question + 1])
        scores = self.scores[windows].ravel()
        order = np.argsort(-scores, kind="stable")
        order = order[np.isfinite(scores[order])][: self.scores.shape[1]]
        read, found = self.split.read_passage(question), dict[str, float]()
        spans = self.tokens[windows].reshape(-1, 2)[order].tolist()
        for (first, last), score in zip(spans, scores[order].tolist(), strict=True):
            begin, end = character_span(read.begins, read.ends, first, last)
            found.setdefault(read.text[begin:end], score)
        best = np.float32(next(iter(found.values()), -np.inf))
        return QuestionPrediction(
            list(found), list(found.values()), float(self.null_scores[windows].min() - best)
        )

    @property
    def threshold(self) -> float | None:
        """Above which doubt there is no answer; None where there always is one."""
        return float(self._threshold) if self.split.none_allowed else None

    @cached_property
    def labeled(self) -> list[int]:
        """Questions whose answers are known."""
        return [i for i, record in enumerate(self.split.records) if record["known"]]

    def score_answers(self, texts: Sequence[str]) -> Scores:
        """Exact match and F1 of an answer to each of these questions."""
        allowed, records = self.split.none_allowed, self.split.records
        rows = [
            best_scores(text, records[i]["answers"], none_allowed=allowed)
            for i, text in zip(self.labeled, texts, strict=True)
        ]
        return np.array(rows, np.float64).reshape(-1, 2)

    def compute(self) -> dict[str, float]:
        """Shares from 0 to 1, as accuracies; the threshold is what split valid is best with."""
        if not self.labeled:
            return {}
        if not self.split.none_allowed:
            exact, f1 = self.score_answers(
                [self.predicted[i].text(None) for i in self.labeled]
            ).mean(0)
            return {"exact_match": float(exact), "f1": float(f1)}
        return self.compute_with_null()

    def compute_with_null(self) -> dict[str, float]:
        """The figures of SQuAD 2.0."""
        always = self.score_answers([self.predicted[i].text(None) for i in self.labeled])
        never = self.score_answers([""] * len(self.labeled))
        doubts = np.array([self.predicted[i].null_odds for i in self.labeled])
        tuned, best_f1 = best_threshold(doubts, always[:, 1], never[:, 1])
        _, best_exact = best_threshold(doubts, always[:, 0], never[:, 0])
        if self.split.name == TUNED_ON:
            self._threshold.fill_(tuned)
        threshold = float(self._threshold)
        scores = np.where((doubts > threshold)[:, None], never, always)
        exact, f1 = scores.mean(0)
        found = {"exact_match": float(exact), "f1": float(f1), "null_threshold": threshold}
        found |= {"best_exact_match": best_exact, "best_f1": best_f1}
        has = np.array([bool(self.split.records[i]["answers"]) for i in self.labeled])
        for name, chosen in (("answerable", has), ("unanswerable", ~has)):
            if chosen.any():
                exact, f1 = scores[chosen].mean(0)
                found |= {f"{name}_exact_match": float(exact), f"{name}_f1": float(f1)}
        return found

    def write(self, path: Path) -> None:
        names = [record["id"] for record in self.split.records]
        write_answers(path, names, self.predicted, self.threshold)

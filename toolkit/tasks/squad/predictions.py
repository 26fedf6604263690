"""Extractive question answering: SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018).

B windows   S positions of a window   L maximum number of tokens of an answer   N answers kept
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from toolkit.common.arrays import FloatArray
from toolkit.common.files import write_output
from toolkit.common.registry import register_task
from toolkit.criteria import IMPOSSIBLE, MaskedClasses, Prediction
from toolkit.data.formats.qa.format import character_span, max_context_tokens
from toolkit.data.formats.qa.squad import FIELDS, encode_span_questions
from toolkit.metrics.translation import best_scores, best_threshold
from toolkit.models.heads import Features, PreciseLinear
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.predictions import Predictor, Results, check_unique_ids
from toolkit.tasks.squad.examples import END, START, SquadBatch, SquadConfig, SquadExamples
from toolkit.tasks.task import EncoderFactory, Task

ANSWERS, NBEST, ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"
TUNED_ON = "valid"
"""The split on which the threshold for unanswerable questions is tuned."""


class AnswerPrediction(NamedTuple):
    """The best answer to a question."""

    answer: str
    """Empty if the passage has no token, or by a model of SQuAD 2.0 does not answer it."""
    probability: float
    """Of the best answer among the n best."""
    start: int
    """Its first character in the passage; -1 without an answer."""
    end: int
    """The character after its last."""
    no_answer_odds: float
    """Score of "no answer" minus that of the best answer."""


class QuestionPrediction(NamedTuple):
    """The best answers to one question."""

    texts: list[str]
    """Best first, without duplicates; empty if the passage has no token."""
    scores: list[float]
    null_odds: float
    """Score of "no answer" minus the best answer's; infinite if there is none."""
    spans: Sequence[tuple[int, int]] = ()
    """Characters of each answer in the passage: the first, and the one after the last."""

    @property
    def probabilities(self) -> list[float]:
        """A softmax over the scores."""
        top = max(self.scores, default=0.0)
        odds = [math.exp(score - top) for score in self.scores]
        total = sum(odds)
        return [part / total for part in odds]

    def text(self, threshold: float | None) -> str:
        """The best answer, or the empty string if the odds of "no answer" exceed the threshold."""
        if not self.texts or (threshold is not None and self.null_odds > threshold):
            return ""
        return self.texts[0]


class SquadResults(Results[SquadBatch, AnswerPrediction]):
    """The best answers of each window."""

    def __init__(self, examples: SquadExamples, threshold: Tensor) -> None:
        super().__init__(examples)
        self.split, self.windows, self.config = examples.split, examples.windows, examples.config
        self._threshold, nbest = threshold, examples.config.nbest
        self.scores = self.make_array(np.float32, nbest, fill=-np.inf)
        """Scores of the best answers of each window."""
        self.tokens = self.make_array(np.int64, nbest, 2)
        """First and last token of each, in the passage."""
        self.null_scores = self.make_array(np.float32, fill=np.inf)
        """Score of [CLS] in each window."""

    def update(self, batch: SquadBatch, predictions: Mapping[str, Prediction]) -> None:
        windows = batch.ids.cpu().numpy()
        if windows[0] < 0:
            return
        (start, _), (end, _) = predictions[START], predictions[END]
        may_start = torch.zeros(batch.allowed.shape, dtype=torch.bool)
        for row, (window, first) in enumerate(zip(windows, batch.passage_starts, strict=True)):
            # every answer is found once, in the window that shows most of the passage around it
            tokens = torch.from_numpy(max_context_tokens(self.windows, int(window)))
            may_start[row, int(first) : int(first) + len(tokens)] = tokens
        scores, *positions = best_spans(
            *(start, end, may_start.to(start.device), batch.allowed),
            max_tokens=self.config.answer_tokens,
            count=self.config.nbest,
        )
        count = scores.shape[1]
        self.scores[windows, :count] = scores.cpu().numpy()
        offsets = self.windows.starts[windows] - batch.passage_starts.cpu().numpy()
        spans = torch.stack(positions, -1).cpu().numpy()
        self.tokens[windows, :count] = spans + offsets[:, None, None]
        self.store(batch.ids, self.null_scores, start[:, 0].float() + end[:, 0].float())

    @cached_property
    def predicted(self) -> list[QuestionPrediction]:
        """For each question the best answers over all its windows."""
        return [self.predict_question(question) for question in range(len(self.split))]

    def predict_question(self, question: int) -> QuestionPrediction:
        first_windows = self.windows.first_windows
        windows = slice(first_windows[question], first_windows[question + 1])
        scores = self.scores[windows].ravel()
        order = np.argsort(-scores, kind="stable")
        order = order[np.isfinite(scores[order])][: self.scores.shape[1]]
        passage = self.split.read_passage(question)
        texts, found = dict[str, float](), list[tuple[int, int]]()
        spans = self.tokens[windows].reshape(-1, 2)[order].tolist()
        for (first, last), score in zip(spans, scores[order].tolist(), strict=True):
            start, end = character_span(passage.begins, passage.ends, first, last)
            if (text := passage.text[start:end]) not in texts:
                texts[text] = score
                found.append((start, end))
        best = np.float32(next(iter(texts.values()), -np.inf))
        null_odds = float(self.null_scores[windows].min() - best)
        return QuestionPrediction(list(texts), list(texts.values()), null_odds, found)

    @cached_property
    def labeled(self) -> list[int]:
        """Questions with known answers."""
        return [i for i, record in enumerate(self.split.records) if record["known"]]

    def score_answers(self, texts: Sequence[str]) -> FloatArray:
        """Exact match and F1 of an answer to each labeled question."""
        allowed, records = self.split.none_allowed, self.split.records
        rows = [
            best_scores(text, records[i]["answers"], none_allowed=allowed)
            for i, text in zip(self.labeled, texts, strict=True)
        ]
        return np.array(rows, np.float64).reshape(-1, 2)

    def metrics(self) -> dict[str, float]:
        """Fractions from 0 to 1, like accuracies; split valid sets the threshold."""
        if not self.labeled:
            return {}
        answered = self.score_answers([self.predicted[i].text(None) for i in self.labeled])
        if self.split.none_allowed:
            return self.compute_with_null(answered)
        exact, f1 = answered.mean(0)
        return {"exact_match": float(exact), "f1": float(f1)}

    def compute_with_null(self, answered: FloatArray) -> dict[str, float]:
        """Metrics of SQuAD 2.0; `answered` are the scores if every question is answered."""
        unanswered = self.score_answers([""] * len(self.labeled))
        odds = np.array([self.predicted[i].null_odds for i in self.labeled])
        tuned, best_f1 = best_threshold(odds, answered[:, 1], unanswered[:, 1])
        _, best_exact = best_threshold(odds, answered[:, 0], unanswered[:, 0])
        if self.split.name == TUNED_ON:
            self._threshold.fill_(tuned)
        threshold = float(self._threshold)
        scores = np.where((odds > threshold)[:, None], unanswered, answered)
        exact, f1 = scores.mean(0)
        metrics = {"exact_match": float(exact), "f1": float(f1), "null_threshold": threshold}
        metrics |= {"best_exact_match": best_exact, "best_f1": best_f1}
        answerable = np.array([bool(self.split.records[i]["answers"]) for i in self.labeled])
        for name, rows in (("answerable", answerable), ("unanswerable", ~answerable)):
            if rows.any():
                exact, f1 = scores[rows].mean(0)
                metrics |= {f"{name}_exact_match": float(exact), f"{name}_f1": float(f1)}
        return metrics

    def write(self, path: Path) -> None:
        ids = [record["id"] for record in self.split.records]
        threshold = float(self._threshold) if self.split.none_allowed else None
        write_answers(path, ids, self.predicted, threshold)

    def records(self) -> list[AnswerPrediction]:
        threshold, records = float(self._threshold) or None, []  # 0 before it is tuned
        for it in self.predicted:
            text, probability = it.text(threshold), next(iter(it.probabilities), 0.0)
            span = it.spans[0] if text else (-1, -1)
            records.append(AnswerPrediction(text, probability, *span, it.null_odds))
        return records


class SquadPredictor(Predictor[tuple[str, str], AnswerPrediction]):
    """Reads a question and a passage.

    A model whose threshold for unanswerable questions was tuned may leave a question unanswered.
    """

    fields = FIELDS
    columns = ("answer", "probability")
    encode = staticmethod(encode_span_questions)


def best_spans(
    start: Float[Tensor, "B S"],
    end: Float[Tensor, "B S"],
    may_start: Bool[Tensor, "B S"],
    may_end: Bool[Tensor, "B S"],
    *,
    max_tokens: int,
    count: int,
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Int[Tensor, "B N"]]:
    """The largest start_i + end_j with i <= j < i + L, and their i and j; -inf if there are fewer.

    (Devlin et al. 2019, section 4.2; their code tries pairs of the 20 best of either.)
    """
    starts = start.float().masked_fill(~may_start, -math.inf)
    ends = end.float().masked_fill(~may_end, -math.inf)
    window = F.pad(ends, (0, max_tokens - 1), value=-math.inf).unfold(1, max_tokens, 1)  # (B, S, L)
    totals = (starts[..., None] + window).flatten(1)  # (B, S, L) -> (B, S L)
    scores, pairs = totals.topk(min(count, totals.shape[1]))
    first = pairs // max_tokens
    return scores, first, first + pairs % max_tokens


def write_answers(
    path: Path, ids: Sequence[str], predicted: Sequence[QuestionPrediction], threshold: float | None
) -> None:
    """Write the answers to a file; into a directory also the n-best and the odds of no answer."""
    check_unique_ids(ids, "id")
    questions = dict(zip(ids, predicted, strict=True))
    answers = {name: question.text(threshold) for name, question in questions.items()}
    files: dict[Path, Mapping[str, object]] = {path: answers}
    if path.is_dir():
        nbest = {
            name: [
                {"text": text, "probability": probability, "score": score}
                for text, probability, score in zip(
                    it.texts, it.probabilities, it.scores, strict=True
                )
            ]
            for name, it in questions.items()
        }
        files = {path / ANSWERS: answers, path / NBEST: nbest}
        if threshold is not None:
            files[path / ODDS] = {
                name: it.null_odds if math.isfinite(it.null_odds) else 1e9
                for name, it in questions.items()
            }
    for file, values in files.items():
        text = json.dumps(values, ensure_ascii=False, indent=1) + "\n"
        write_output(file, text)


@register_task("squad", SquadConfig())
class Squad(Task[SquadConfig, SquadExamples, SquadBatch]):
    """-(log p(start) + log p(end)) / 2, each p a softmax over positions (Devlin et al. 2019, 4.2).

    For unanswerable questions and windows without the answer, both positions are [CLS] (4.3).
    Unlike in BERT, but as in ELECTRA's code, positions of the question have probability zero.
    """

    collects_in_training, reports_perplexity = True, False
    coefficients: Mapping[str, float] = {START: 0.5, END: 0.5}
    examples_class, predictor_class = SquadExamples, SquadPredictor
    default_tokens = 384
    null_threshold: Tensor
    """Tuned on split valid and saved with the checkpoint."""

    def __init__(self, c: SquadConfig, encoder: EncoderModel, make_encoder: EncoderFactory) -> None:
        super().__init__(c)
        self.features = Features(encoder, layer_mixing=c.layer_mixing)
        self.head = PreciseLinear(encoder.width, 2)
        self.register_buffer("null_threshold", torch.zeros(()))

    def scores(
        self, encoder: EncoderModel, inputs: Inputs, allowed: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "2 B S"]:
        """Scores of each position as the start and as the end of the answer."""
        scores = self.head(self.features(encoder, inputs))  # (B, S, D) -> (B, S, 2)
        return scores.masked_fill(~allowed[..., None], IMPOSSIBLE).movedim(-1, 0).contiguous()

    def predict(self, encoder: EncoderModel, batch: SquadBatch) -> dict[str, Prediction]:
        start, end = self.scores(encoder, batch.inputs, batch.allowed)
        return {START: MaskedClasses(start, batch.starts), END: MaskedClasses(end, batch.ends)}

    def results(self, examples: SquadExamples) -> SquadResults:
        return SquadResults(examples, self.null_threshold)

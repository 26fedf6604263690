from __future__ import annotations

import json
import math
from typing import ClassVar

import numpy as np
import pytest
import torch

from tests.tasks.conftest import ASKED, NOTHING, TOWN
from toolkit.common.errors import ToolkitError
from toolkit.criteria import Classes
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.squad.examples import SquadConfig, SquadExamples
from toolkit.tasks.squad.predictions import (
    QuestionPrediction,
    SquadResults,
    best_spans,
    write_answers,
)

C = SquadConfig(tokens_per_sample=14, stride=3, nbest=4)


@pytest.fixture
def collect(questions):
    """Results; scores are functions of (question, token of the passage)."""

    def call(begin, end, none=lambda question: 0.0, split="valid", order=1, **options):
        examples = SquadExamples(C, SplitSource(questions(**options), split))
        results = SquadResults(examples, torch.zeros(()))
        windows = examples.windows
        for ids in np.array_split(np.arange(len(examples.lengths))[::order], 3):
            batch = examples.collate(ids, None)
            shape = batch.allowed.shape
            scores = torch.full((2, *shape), -1e4)
            for row, number in enumerate(ids.tolist()):
                question, first = int(windows.question_ids[number]), int(windows.starts[number])
                scores[:, row, 0] = none(question) / 2
                for token in range(int(windows.lengths[number])):
                    position = int(batch.passage_starts[row]) + token
                    scores[0, row, position] = begin(question, first + token)
                    scores[1, row, position] = end(question, first + token)
            parts = zip(("begin", "end"), scores, (batch.starts, batch.ends), strict=True)
            results.update(batch, {name: Classes(s, t) for name, s, t in parts})
        results.sync(World())
        return results

    return call


RIGHT = {0: (8, 9), 1: (6, 6), 2: (13, 13), 3: (2, 3)}
"""First and last word of the answer to each question; the last has none."""


def at(which):
    return lambda question, token: 5.0 * (token == RIGHT[question][which]) - 0.1 * token


def test_correct_positions_yield_the_correct_answers(collect):
    for order in (1, -1):
        results = collect(at(0), at(1), order=order)
        texts = [it.text(None) for it in results.predicted]
        assert texts == ["Anna Bell.", "1905", "Jose,"]
        assert results.metrics() == {"exact_match": 1.0, "f1": 1.0}


def test_answers_found_twice_have_the_better_score(collect):
    context = f"{TOWN} The old mill was sold"

    def mills(question, token):
        return {2: 4.0, 20: 5.0}.get(token, -9.0)

    results = collect(mills, mills, context=context)
    text = results.split.read_passage(0)
    words = [text.text[b:e] for b, e in zip(text.begins, text.ends, strict=True)]
    assert [position for position, word in enumerate(words) if word == "mill"] == [2, 20]
    prediction = results.predicted[0]
    assert (prediction.texts[0], prediction.scores[0]) == ("mill", 10.0) and prediction.scores[
        1
    ] < 8.0


def test_null_odds_come_from_the_window_with_the_lowest_null_score(collect):
    results = collect(at(0), at(1))
    first, end = results.examples.windows.first_windows[:2]
    results.null_scores[first:end] = np.arange(end - first) + 3.0
    assert end - first > 1
    assert results.predicted[0].null_odds == pytest.approx(3.0 - results.predicted[0].scores[0])


def null_scores(question):
    return 40.0 if question == 3 else 9.5


def test_best_threshold_is_found_and_stored(collect):
    options = {"asked": [*ASKED, *NOTHING], "version": "v2.0"}
    results = collect(at(0), at(1), null_scores, **options)
    metrics = results.metrics()
    assert metrics["exact_match"] == metrics["best_exact_match"] == metrics["best_f1"] == 1.0
    null_odds = [it.null_odds for it in results.predicted]
    assert max(null_odds[:3]) == metrics["null_threshold"] < null_odds[3]
    assert metrics["unanswerable_f1"] == metrics["answerable_f1"] == 1.0


def test_other_splits_leave_the_threshold_unchanged(collect):
    options = {"asked": [*ASKED, *NOTHING], "version": "v2.0"}
    results = collect(at(0), at(1), null_scores, split="train", **options)
    metrics = results.metrics()
    assert all(prediction.answer for prediction in results.records()), "no threshold is tuned"
    assert metrics["null_threshold"] == 0.0 and metrics["best_f1"] == 1.0
    assert metrics["exact_match"] == metrics["unanswerable_f1"] * 0.25


def test_prediction_files_have_the_format_of_the_benchmark(collect, tmp_path):
    options = {"asked": [*ASKED, *NOTHING], "version": "v2.0"}
    results = collect(at(0), at(1), null_scores, **options)
    results.metrics()
    results.write(tmp_path / "one.json")
    wanted = {"q1": "Anna Bell.", "q2": "1905", "q3": "Jose,", "q4": ""}
    assert json.loads((tmp_path / "one.json").read_text()) == wanted
    (tmp_path / "all").mkdir()
    results.write(tmp_path / "all")
    read = {p.name: json.loads(p.read_text()) for p in (tmp_path / "all").iterdir()}
    assert read["predictions.json"] == wanted and len(read["nbest_predictions.json"]["q1"]) == 4
    assert sum(it["probability"] for it in read["nbest_predictions.json"]["q1"]) == pytest.approx(1)
    assert read["null_odds.json"]["q4"] == pytest.approx(results.predicted[3].null_odds)


def test_questions_without_known_answers_have_no_metrics(collect):
    bare = [{"id": "x", "question": "Who?", "answers": []}]
    results = collect(
        lambda q, t: float(t == 3), lambda q, t: float(t == 3), split="test", bare=bare
    )
    assert results.metrics() == {} and results.predicted[0].texts


class TwoRanks(World):
    """One of two ranks; gathers the texts of both."""

    texts: ClassVar[list[str]] = []

    def all_gather(self, text):
        self.texts.append(text)
        return self.texts


def test_sync_gathers_the_predictions_of_all_ranks(collect):
    complete = collect(at(0), at(1))
    halves = [SquadResults(complete.examples, torch.zeros(())) for _ in range(2)]
    count = len(complete.seen)
    for half, mine in zip(halves, (slice(0, count, 2), slice(1, count, 2)), strict=True):
        for name in ("scores", "tokens", "null_scores", "seen"):
            getattr(half, name)[mine] = getattr(complete, name)[mine]
    first, second = halves
    with pytest.raises(AssertionError, match="every example is in one batch"):
        first.sync(TwoRanks(size=2))
    second.sync(TwoRanks(size=2))
    assert [it.texts for it in second.predicted] == [it.texts for it in complete.predicted]
    assert second.metrics() == complete.metrics()


POSITIONS = 9


def all_spans(start, end, may_start, may_end, max_tokens):
    """All pairs, best first."""
    spans = [
        (float(start[i] + end[j]), i, j)
        for i in range(POSITIONS)
        for j in range(i, min(i + max_tokens, POSITIONS))
        if may_start[i] and may_end[j]
    ]
    return sorted(spans, reverse=True)


@pytest.mark.parametrize("max_tokens", [1, 3, 50])
def test_best_spans_equal_those_of_all_pairs(max_tokens):
    draw = torch.Generator().manual_seed(max_tokens)
    start, end = (torch.randn(4, POSITIONS, generator=draw) for _ in range(2))
    may_start, may_end = (torch.rand(4, POSITIONS, generator=draw) < 0.6 for _ in range(2))
    spans = best_spans(start, end, may_start, may_end, max_tokens=max_tokens, count=5)
    for row, (scores, firsts, lasts) in enumerate(zip(*spans, strict=True)):
        expected = all_spans(start[row], end[row], may_start[row], may_end[row], max_tokens)[:5]
        real = scores.isfinite()
        got = zip(scores[real].tolist(), firsts[real].tolist(), lasts[real].tolist(), strict=True)
        assert list(got) == [pytest.approx(it) for it in expected]


SURE, DOUBTFUL = (
    QuestionPrediction(["Bell", "Anna"], [2.0, 1.0], -3.0),
    QuestionPrediction(["1905"], [0.5], 2.5),
)
NO_ANSWER = QuestionPrediction([], [], math.inf)


def test_files_of_a_folder_have_probabilities_and_with_a_threshold_the_null_odds(tmp_path):
    names = ["nbest_predictions.json", "null_odds.json", "predictions.json"]
    for threshold, written in ((None, [names[0], names[2]]), (0.0, names)):
        write_answers(tmp_path, ["a", "b"], [SURE, NO_ANSWER], threshold)
        assert sorted(p.name for p in tmp_path.iterdir()) == written
    nbest, odds = (json.loads((tmp_path / name).read_text()) for name in names[:2])
    first, second = nbest["a"]
    assert first["probability"] == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-12)
    assert second == {"text": "Anna", "probability": 1 - first["probability"], "score": 1.0}
    assert nbest["b"] == [] and odds == {"a": -3.0, "b": 1e9}


def test_write_answers_rejects_duplicate_ids(tmp_path):
    with pytest.raises(
        ToolkitError, match=r"a unique id per example, but 'b' occurs more than once"
    ):
        write_answers(tmp_path / "x.json", ["a", "b", "b"], [SURE, DOUBTFUL, NO_ANSWER], None)
    assert not list(tmp_path.iterdir())

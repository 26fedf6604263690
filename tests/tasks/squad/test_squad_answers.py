from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest
import torch

from tests.tasks.conftest import ASKED, NOTHING, TOWN
from toolkit.criteria import Classes
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.squad.config import SquadConfig
from toolkit.tasks.squad.examples import SquadExamples
from toolkit.tasks.squad.predictions import SquadCollector

C = SquadConfig(tokens_per_sample=14, stride=3, nbest=4)


@pytest.fixture
def answered(questions):
    """Answers by scores that a function of (question, token of the passage) gives."""

    def call(begin, end, none=lambda question: 0.0, split="valid", order=1, **options):
        examples = SquadExamples(C, SplitSource(questions(**options), split))
        answers = SquadCollector(examples, torch.zeros(()))
        windows = examples.windows
        for ids in np.array_split(np.arange(len(examples.lengths))[::order], 3):
            batch = examples.collate(ids, None)
            shape = batch.allowed.shape
            scores = torch.full((2, *shape), -1e4)
            for row, number in enumerate(ids.tolist()):
                question, first = int(windows.question_ids[number]), int(windows.starts[number])
                scores[:, row, 0] = none(question) / 2
                for token in range(int(windows.lengths[number])):
                    place = int(batch.passage_starts[row]) + token
                    scores[0, row, place] = begin(question, first + token)
                    scores[1, row, place] = end(question, first + token)
            found = zip(("begin", "end"), scores, (batch.starts, batch.ends), strict=True)
            answers.update(batch, {name: Classes(s, t) for name, s, t in found})
        answers.sync(World())
        return answers

    return call


RIGHT = {0: (8, 9), 1: (6, 6), 2: (13, 13), 3: (2, 3)}
"""First and last word of the answer to each question; the last has none."""


def at(which):
    return lambda question, token: 5.0 * (token == RIGHT[question][which]) - 0.1 * token


def test_correct_positions_yield_the_correct_answers(answered):
    for order in (1, -1):
        answers = answered(at(0), at(1), order=order)
        texts = [it.text(None) for it in answers.predicted]
        assert texts == ["Anna Bell.", "1905", "Jose,"]
        assert answers.compute() == {"exact_match": 1.0, "f1": 1.0}


def test_partial_answers_have_partial_f1(answered):
    first = answered(at(0), at(0)).compute()
    assert first["exact_match"] == 1.0  # Anna is among the answers
    late = answered(at(1), at(1)).compute()
    assert late["exact_match"] == pytest.approx(2 / 3) and late["f1"] == pytest.approx(8 / 9)


def test_several_answers_are_kept_best_first(answered):
    given = answered(at(0), at(1)).predicted[0]
    assert len(given.texts) == len(set(given.texts)) == 4 and given.texts[0] == "Anna Bell."
    assert given.scores == sorted(given.scores, reverse=True)


def test_answers_found_twice_have_the_better_score(answered):
    context = f"{TOWN} The old mill was sold"

    def mills(question, token):
        return {2: 4.0, 20: 5.0}.get(token, -9.0)

    answers = answered(mills, mills, context=context)
    text = answers.split.read_passage(0)
    words = [text.text[b:e] for b, e in zip(text.begins, text.ends, strict=True)]
    assert [place for place, word in enumerate(words) if word == "mill"] == [2, 20]
    given = answers.predicted[0]
    assert (given.texts[0], given.scores[0]) == ("mill", 10.0) and given.scores[1] < 8.0


def test_null_odds_come_from_the_window_with_the_lowest_null_score(answered):
    answers = answered(at(0), at(1))
    first, end = answers.examples.windows.first_windows[:2]
    answers.null_scores[first:end] = np.arange(end - first) + 3.0
    assert end - first > 1
    assert answers.predicted[0].null_odds == pytest.approx(3.0 - answers.predicted[0].scores[0])


def doubtful(question):
    return 40.0 if question == 3 else 9.5


def test_best_threshold_is_found_and_stored(answered):
    options = {"asked": [*ASKED, *NOTHING], "version": "v2.0"}
    answers = answered(at(0), at(1), doubtful, **options)
    found = answers.compute()
    assert found["exact_match"] == found["best_exact_match"] == found["best_f1"] == 1.0
    doubts = [it.null_odds for it in answers.predicted]
    assert max(doubts[:3]) == found["null_threshold"] < doubts[3]
    assert found["unanswerable_f1"] == found["answerable_f1"] == 1.0
    assert [it.text(answers.threshold) for it in answers.predicted][3] == ""


def test_exact_match_and_f1_have_separate_best_thresholds(answered):
    options = {"asked": [*ASKED, *NOTHING], "version": "v2.0"}
    found = answered(at(1), at(1), doubtful, **options).compute()
    assert found["best_exact_match"] == 3 / 4 and found["best_f1"] == pytest.approx(11 / 12)


def test_short_passages_have_no_more_answers_than_spans(answered):
    options = {"asked": [{**it, "answers": []} for it in NOTHING], "version": "v2.0"}
    given = answered(lambda q, t: 1.0, lambda q, t: t, context="Jose cooks", **options).predicted[0]
    assert set(given.texts) == {"Jose cooks", "cooks", "Jose"} and given.scores == [2.0, 2.0, 1.0]


def test_other_splits_leave_the_threshold_unchanged(answered):
    options = {"asked": [*ASKED, *NOTHING], "version": "v2.0"}
    found = answered(at(0), at(1), doubtful, split="train", **options).compute()
    assert found["null_threshold"] == 0.0 and found["best_f1"] == 1.0
    assert found["exact_match"] == found["unanswerable_f1"] * 0.25


def test_prediction_files_have_the_format_of_the_benchmark(answered, tmp_path):
    options = {"asked": [*ASKED, *NOTHING], "version": "v2.0"}
    answers = answered(at(0), at(1), doubtful, **options)
    answers.compute()
    answers.write(tmp_path / "one.json")
    wanted = {"q1": "Anna Bell.", "q2": "1905", "q3": "Jose,", "q4": ""}
    assert json.loads((tmp_path / "one.json").read_text()) == wanted
    (tmp_path / "all").mkdir()
    answers.write(tmp_path / "all")
    read = {p.name: json.loads(p.read_text()) for p in (tmp_path / "all").iterdir()}
    assert read["predictions.json"] == wanted and len(read["nbest_predictions.json"]["q1"]) == 4
    assert sum(it["probability"] for it in read["nbest_predictions.json"]["q1"]) == pytest.approx(1)
    assert read["null_odds.json"]["q4"] == pytest.approx(answers.predicted[3].null_odds)


def test_questions_without_known_answers_have_no_metrics(answered):
    bare = [{"id": "x", "question": "Who?", "answers": []}]
    answers = answered(
        lambda q, t: float(t == 3), lambda q, t: float(t == 3), split="test", bare=bare
    )
    assert answers.compute() == {} and answers.predicted[0].texts


class Together(World):
    """One of two processes: what they say is kept, and everyone hears it."""

    said: ClassVar[list[str]] = []

    def all_gather(self, text):
        self.said.append(text)
        return self.said


def test_sync_gathers_the_predictions_of_all_ranks(answered):
    whole = answered(at(0), at(1))
    halves = [SquadCollector(whole.examples, torch.zeros(())) for _ in range(2)]
    count = len(whole.seen)
    for half, own in zip(halves, (slice(0, count, 2), slice(1, count, 2)), strict=True):
        for name in ("scores", "tokens", "null_scores", "seen"):
            getattr(half, name)[own] = getattr(whole, name)[own]
    first, second = halves
    with pytest.raises(AssertionError, match="every example is in one batch"):
        first.sync(Together(size=2))
    second.sync(Together(size=2))
    assert [it.texts for it in second.predicted] == [it.texts for it in whole.predicted]
    assert second.compute() == whole.compute()

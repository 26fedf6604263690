from __future__ import annotations

import json
import math

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.tasks.squad.predictions import QuestionPrediction, format_nbest, write_answers

SURE, DOUBTFUL = (
    QuestionPrediction(["Bell", "Anna"], [2.0, 1.0], -3.0),
    QuestionPrediction(["1905"], [0.5], 2.5),
)
NOTHING = QuestionPrediction([], [], math.inf)


def test_text_is_empty_above_the_threshold_or_without_a_token():
    assert [it.text(2.4) for it in (SURE, DOUBTFUL, NOTHING)] == ["Bell", "", ""]
    assert [it.text(None) for it in (SURE, DOUBTFUL, NOTHING)] == ["Bell", "1905", ""]
    assert DOUBTFUL.text(2.5) == "1905"


def test_nbest_probabilities_are_a_softmax_over_the_scores():
    first, second = format_nbest(SURE)
    assert first["probability"] == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-12)
    assert second == {"text": "Anna", "probability": 1 - first["probability"], "score": 1.0}
    assert format_nbest(NOTHING) == []


def test_null_odds_are_not_written_without_a_threshold(tmp_path):
    write_answers(tmp_path, ["a", "b"], [SURE, NOTHING], None)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "nbest_predictions.json",
        "predictions.json",
    ]


def test_infinite_null_odds_are_written_as_large_numbers(tmp_path):
    write_answers(tmp_path, ["a", "b"], [SURE, NOTHING], 0.0)
    assert json.loads((tmp_path / "null_odds.json").read_text()) == {"a": -3.0, "b": 1e9}


def test_write_answers_rejects_duplicate_ids(tmp_path):
    with pytest.raises(
        ToolkitError, match=r"a unique id per example, but 'b' occurs more than once"
    ):
        write_answers(tmp_path / "x.json", ["a", "b", "b"], [SURE, DOUBTFUL, NOTHING], None)
    assert not list(tmp_path.iterdir())


def test_write_answers_reports_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(ToolkitError, match="Cannot write --predictions"):
        write_answers(tmp_path / "nowhere" / "x.json", ["a"], [SURE], None)

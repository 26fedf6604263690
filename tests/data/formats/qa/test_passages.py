from __future__ import annotations

from pathlib import Path

from toolkit.data.formats.qa.passages import GoldAnswer, QuestionProblem, SpanQuestion


def test_an_answer_ends_behind_its_last_character():
    assert GoldAnswer("cook", 3).end == 7


def test_an_answer_is_known_where_there_is_one_or_surely_none():
    nothing = SpanQuestion("q", "Who?", (), False, "paragraph 1")
    assert not nothing.labeled and nothing._replace(unanswerable=True).labeled
    assert nothing._replace(answers=(GoldAnswer("cook", 3),)).labeled


def test_a_problem_says_where_it_is():
    assert str(QuestionProblem(Path("x.json"), "7", "it is blank.")) == "x.json:7: it is blank."

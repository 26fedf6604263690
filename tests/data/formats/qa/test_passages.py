from __future__ import annotations

from pathlib import Path

from toolkit.data.formats.qa.passages import Answer, Asked, Problem


def test_an_answer_ends_behind_its_last_character():
    assert Answer("cook", 3).end == 7


def test_an_answer_is_known_where_there_is_one_or_surely_none():
    nothing = Asked("q", "Who?", (), False, "paragraph 1")
    assert not nothing.known and nothing._replace(none=True).known
    assert nothing._replace(answers=(Answer("cook", 3),)).known


def test_a_problem_says_where_it_is():
    assert str(Problem(Path("x.json"), "7", "it is blank.")) == "x.json:7: it is blank."

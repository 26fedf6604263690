from __future__ import annotations

from pathlib import Path

from toolkit.data.formats.qa.format import GoldAnswer, SpanQuestion
from toolkit.data.preprocessing.report import Problem


def test_answer_ends_after_its_last_character():
    assert GoldAnswer("cook", 3).end == 7


def test_question_is_labeled_if_it_has_answers_or_is_unanswerable():
    nothing = SpanQuestion("q", "Who?", (), False, "paragraph 1")
    assert not nothing.labeled and nothing._replace(unanswerable=True).labeled
    assert nothing._replace(answers=(GoldAnswer("cook", 3),)).labeled


def test_problem_names_its_file_and_location():
    assert str(Problem(Path("x.json"), "7", "it is blank.")) == "x.json:7: it is blank."

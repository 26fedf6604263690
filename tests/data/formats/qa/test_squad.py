from __future__ import annotations

import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.squad import read_squad

from .conftest import COOK, FOUNDER, SQUAD, TEXT, YEAR, make_squad


@pytest.fixture
def read(write_files):
    def call(content, evaluated=False, answers_required=True, max_bytes=500000):
        options = {"evaluated": evaluated, "answers_required": answers_required}
        return read_squad(write_files("x.json", content), max_bytes, **options)

    return call


def test_questions_have_their_passage_and_answers(read):
    source = read(SQUAD)
    [passage] = source.passages
    assert passage.text == TEXT and [it.name for it in passage.questions] == ["q1", "q2", "q3"]
    assert [text for text, _ in passage.questions[0].answers] == ["Anna  Bell", "Anna"]
    assert not source.problems and not source.none_allowed


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"id": "q2", "question": "?", "answers": [{"text": "Bell", "answer_start": 3}]},
         r"paragraph 1, question 2, id q2: an answer .* at 3 the context has ' Caf', not 'Bell',"),
        ({"id": "q2", "question": "?", "answers": [{"text": "Rome", "answer_start": 0}]},
         r"which is not in the context"),
        ({"id": "q2", "question": "?", "answers": [{"text": " ", "answer_start": 3}]}, "is blank"),
        ({"id": "q2", "question": "?", "answers": []}, "have an answer, or 'is_impossible' true"),
        ({"id": "q2", "question": "?", "answers": [{"text": "x"}]}, "'text' and 'answer_start'"),
        ({"id": "q2", "question": "?", "answers": {}, "is_impossible": 1}, "must be a list and"),
        ({"id": "q2", "answers": []}, r"question 2: a question must have 'id' and 'question', but"),
        ({**YEAR, "is_impossible": True}, r"'is_impossible' true must not have answers, but has"),
        ({**YEAR, "id": "q1"}, r"id q1: ids must be unique, .* the id of article 1 '"),
    ],
)  # fmt: skip
def test_malformed_questions_are_problems_with_their_location(read, wrong, message):
    source = read(make_squad(FOUNDER, wrong))
    [problem] = source.problems
    assert [it.name for it in source.passages[0].questions] == ["q1"] and not problem.kept
    with pytest.raises(ToolkitError, match=message):
        raise ToolkitError(str(problem))


@pytest.mark.parametrize(("text", "shift"), [("1905", -2), ("1905", 1), (" 1905 \n", 0)])
def test_answers_next_to_their_offset_are_moved_and_counted(read, text, shift):
    start = TEXT.index("1905")
    near = {"id": "q2", "question": "?", "answers": [{"text": text, "answer_start": start + shift}]}
    source = read(make_squad(FOUNDER, near))
    assert source.passages[0].questions[1].answers == (("1905", start),)
    assert not source.problems and source.notes[0].startswith("1 answers moved by one or two")


def test_evaluated_questions_with_wrong_offsets_stay(read):
    wrong = {"id": "q2", "question": "?", "answers": [{"text": "Bell", "answer_start": 3}]}
    source = read(make_squad(FOUNDER, wrong), evaluated=True)
    assert [it.name for it in source.passages[0].questions] == ["q1", "q2"]
    assert source.problems[0].kept and source.passages[0].questions[1].answers[0][1] == -1


def test_blank_context_is_one_problem_for_all_its_questions(read):
    content = make_squad(YEAR, COOK, context=" \n")
    content["data"][0]["paragraphs"].append({"context": TEXT, "qas": [FOUNDER]})
    source = read(content)
    assert "the context must hold text, but is blank, and has 2 questions" in str(
        source.problems[0]
    )
    assert [it.name for p in source.passages for it in p.questions] == ["q1"]
    assert source.problems[0].lost == 2
    kept = read(content, evaluated=True)
    assert len(kept.problems) == 1
    assert [it.name for p in kept.passages for it in p.questions] == ["q2", "q3", "q1"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            json.dumps(SQUAD)[:200],
            r"x.json:1: the file must be JSON to its end: .* ends after 200 characters",
        ),
        (json.dumps(SQUAD, indent=1)[:300], r"to its end: .* at line 1\d .* ends after 300 "),
        ('{"data": [}', r"x.json:1: the file must be JSON .*: .* at column 11"),
        ("", r"ends after 0 characters"),
        ("[" * 100000, r"nested too deeply"),
        ([1], r"x.json:1: the file must be an object with a list 'data', .* but is of type list"),
        ({"rows": 1}, r"but is an object with 'rows'"),
        ({"data": [{"title": "x"}]}, r"x.json:article 1: an article must have a list 'paragraphs'"),
        ("\udcff".encode("utf-8", "surrogateescape"), r"expected UTF-8, found byte 0xff"),
    ],
)
def test_files_without_squads_layout_are_rejected(read, content, message):
    with pytest.raises(ToolkitError, match=message):
        read(content)

from __future__ import annotations

import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.multiple_choice import fill_blank, read_race

from .conftest import RACE


@pytest.fixture
def race(write_files, tmp_path):
    """Reads a folder of these files."""

    def read(files, answers_required=True, max_bytes=500000):
        for name, content in files.items():
            write_files(f"RACE/{name}", content)
        return read_race(tmp_path / "RACE", max_bytes, answers_required=answers_required)

    return read


def test_passages_are_sorted_by_number_and_have_their_group(race):
    source = race({"high/10.txt": RACE, "high/9.txt": RACE, "middle/1.txt": RACE})
    choices = [choice for passage in source.passages for choice in passage.choices]
    assert [c.name for c in choices[::3]] == ["high/9.txt 1", "high/10.txt 1", "middle/1.txt 1"]
    assert {c.group for c in choices} == {"high", "middle"}
    assert [c.answer for c in choices[:3]] == [0, 0, 1] and not source.problems


def test_option_fills_the_blank_or_follows_the_question():
    assert fill_blank("Tom flies on _ .", "Sundays") == "Tom flies on Sundays ."
    assert fill_blank("Who is Tom?", " a boy ") == "Who is Tom? a boy"
    assert fill_blank("_ is to _ as", "x; y") == "_ is to _ as x; y"


def test_files_of_the_operating_system_are_skipped_and_reported(race):
    source = race({"1.txt": RACE, ".DS_Store": b"\0\1", "._1.txt": b"\0", "note.md": "x"})
    assert len(source.passages) == 1
    assert source.notes == ["3 files skipped, .DS_Store, ._1.txt, note.md"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": ["A", "E", "B"]}, r"2.txt:question 2: the answer must be one of A, B, but is"),
        ({"answers": ["A", None, "B"]}, r"2.txt:question 2: the answer must be one of A, B"),
        ({"options": [["a", "b"], ["c", "d", "e"], ["f", "g"]]},
         r"2.txt:question 2: a question must have 2 options as the others, but has 3"),
        ({"options": [["a", "b"], ["c", " "], ["f", "g"]]}, r"every option must be text"),
        ({"options": [["a", "b"], ["c"], ["f", "g"]]}, r"have two options or more"),
        ({"questions": ["x", 3, "y"]}, r"2.txt:question 2: a question must be text and have two"),
    ],
)  # fmt: skip
def test_malformed_question_is_a_problem_and_the_others_stay(race, change, message):
    source = race({"1.txt": RACE, "2.txt": {**RACE, **change}})
    [problem] = source.problems
    assert [len(p.choices) for p in source.passages] == [3, 2]
    with pytest.raises(ToolkitError, match=message):
        raise ToolkitError(str(problem))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            json.dumps(RACE)[:99],
            "2.txt:1: the file must be JSON to its end: ",
        ),
        ({**RACE, "article": " "}, "2.txt:1: a passage must have an article and questions"),
        (
            {**RACE, "answers": ["A"]},
            "questions, but there are 3 questions, 3 options, 1 answers",
        ),
        ([], "2.txt:1: a passage must have an article and questions"),
    ],
)
def test_malformed_file_is_a_problem_and_the_others_stay(race, content, message):
    source = race({"1.txt": RACE, "2.txt": content})
    assert len(source.passages) == 1 and message in str(source.problems[0])


def test_folder_without_passages_and_long_article_are_rejected(race, tmp_path):
    with pytest.raises(ToolkitError, match=r"files that end in .txt or .json, but holds none"):
        race({"x.md": RACE})
    with pytest.raises(ToolkitError, match=r"an article must have at most 20 bytes, but has 43"):
        race({"1.txt": RACE}, max_bytes=20)

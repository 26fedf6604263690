from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.multiple_choice import read_swag

from .conftest import SWAG

HEAD, FIRST, SECOND = SWAG.splitlines(keepends=True)


@pytest.fixture
def read(write_files):
    def call(text, name="x.csv", answers_required=True, max_bytes=500000):
        return read_swag(write_files(name, text), max_bytes, answers_required=answers_required)

    return call


@pytest.mark.parametrize("change", [str, lambda text: "\ufeff" + text.replace("\n", "\r\n")])
def test_rows_are_texts_with_several_continuations(read, change):
    first, second = read(change(SWAG)).passages
    assert first.text == "A cat sits."
    [choice] = first.choices
    assert choice.options == ("It sleeps.", "It sings, loud.", "It flies.") and choice.answer == 0
    assert second.choices[0].answer == 2 and second.choices[0].name == "1"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (FIRST.replace(",0\n", ",3\n"), "x.csv:3: the column label must be one of 0, 1, 2, but is"),
        (FIRST.replace(",0\n", ",-1\n"), "of 0, 1, 2, but is '-1'"),
        (
            FIRST.replace(",0\n", ",\n"),
            "x.csv:3: the column label must be one of 0, 1, 2, but is ''",
        ),
        (FIRST.replace("sleeps.", ""), "x.csv:3: every ending must be text, but one is blank"),
        ("1,2\n", "x.csv:3: a row must have 11 columns, as the first line, but has 2"),
    ],
)
def test_malformed_row_is_named_by_line_and_the_others_stay(read, row, message):
    source = read(HEAD + FIRST + row + SECOND)
    assert len(source.passages) == 2 and message in str(source.problems[0])
    assert [p.choices[0].name for p in source.passages] == ["0", "2"], "rows of the file"


def test_row_over_several_lines_is_named_by_its_first(read):
    long = FIRST.replace('"sings, loud."', '"sings,\nloud."')
    source = read(HEAD + long + FIRST.replace(",0\n", ",9\n"))
    assert source.passages[0].choices[0].options[1] == "It sings,\nloud."
    assert str(source.problems[0]).split(": ")[0].endswith("x.csv:4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + FIRST.replace('loud."', "loud."), r"x.csv:2: .* is malformed"),
        (HEAD + FIRST.replace("A cat sits.", 'A "cat" sits.').replace("It,gold", '"It"s,gold'),
         r"x.csv:2: .* inside of quotes, they are doubled"),
        ("a,b\n1,2\n", r"x.csv:1: the first line must name the col.* names 'a', 'b'"),
        (HEAD + FIRST.replace("A cat sits.", "cat " * 50000), r"x.csv:2: expected at most"),
    ],
)  # fmt: skip
def test_files_without_swags_layout_are_rejected(read, text, message):
    with pytest.raises(ToolkitError, match=message):
        read(text, max_bytes=100000)

from __future__ import annotations

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.registry import FORMATS
from toolkit.data.formats.format import format_cell


def cells(form, entry):
    config = preprocess_config(format=form, trainpref="x")
    more = FORMATS[form].factory(config.format.config, config).more_cells(entry)
    return [format_cell(cell) for cell in more.values()]


@pytest.mark.parametrize(
    ("form", "entry", "expected"),
    [
        ("squad", {"answers": 400, "recovered": 399, "none": 7}, ["7", "399 of 400 (99.75%)"]),
        ("squad", {"answers": 0, "recovered": 0, "none": 0}, ["0", "none"]),
        ("race", {"options": 4000, "questions": 1000, "unlabeled": 1}, ["4,000", "999"]),
    ],
)
def test_table_has_the_cells_of_its_format(form, entry, expected):
    assert cells(form, entry) == expected


def test_report_lists_the_first_problems_only(folder, capsys):
    from .conftest import SQUAD, make_question, make_squad

    questions = [make_question(f"x{number}", "Who?", "Anna") for number in range(9)]
    for question in questions:
        question["answers"][0]["answer_start"] = 0
    folder(make_squad(*questions, *SQUAD["data"][0]["paragraphs"][0]["qas"]), on_malformed="skip")
    output = capsys.readouterr().out
    assert output.count("left out ") == 5 + 1 and "and 4 more of train left out" in output

import io
import json
import math

import pytest

from toolkit.reporting.console import Console
from toolkit.reporting.tables import Table

TABLE = Table(
    columns=["run", "mean_loss", "n"],
    rows=[["a_b|c", 5.25, 3], ["lr=1%", 10.5, 2]],
    marked=[0],
    caption="loss on valid",
)


def test_text_table_aligns_columns_and_stars_the_marked_rows():
    assert TABLE.text().splitlines() == [
        "loss on valid",
        "run      mean_loss  n",
        "a_b|c *      5.250  3",
        "lr=1%       10.500  2",
    ]


def test_markdown_table_escapes_pipes_and_sets_marked_rows_in_bold():
    assert TABLE.markdown().splitlines() == [
        "loss on valid",
        "",
        "| run | mean_loss | n |",
        "| --- | ---: | ---: |",
        "| **a_b\\|c** | 5.250 | 3 |",
        "| lr=1% | 10.500 | 2 |",
    ]


def test_latex_table_escapes_special_characters():
    assert TABLE.latex().splitlines() == [
        "\\begin{table}",
        "\\centering",
        "\\caption{loss on valid.}",
        "\\label{tab:loss-on-valid}",
        "\\begin{tabular}{lrr}",
        "\\toprule",
        "run & mean\\_loss & n \\\\",
        "\\midrule",
        "\\textbf{a\\_b|c} & 5.250 & 3 \\\\",
        "lr=1\\% & 10.500 & 2 \\\\",
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
    ]


def test_json_table_keeps_full_precision():
    value = json.loads(TABLE.json(metric="loss"))
    assert value["rows"][1] == {"run": "lr=1%", "mean_loss": 10.5, "n": 2}
    assert (value["marked"], value["metric"]) == ([0], "loss")


def test_a_table_uses_rich_only_on_a_terminal():
    drawn, plain = io.StringIO(), io.StringIO()
    TABLE.print(Console(file=drawn, force_terminal=True, width=60))
    TABLE.print(Console(file=plain))
    assert "a_b|c *" in drawn.getvalue() and "\x1b[1m" in drawn.getvalue()
    assert plain.getvalue() == TABLE.text()


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([12.5, math.nan, math.inf], ["12.500", "nan", "inf"]),
        ([math.nan, 0.0], ["nan", "0.0"]),
        ([1e-9, 2e-30], ["0.0000000", "0.0000000"]),
        ([-123456.0, 0.0], ["-123456", "0"]),
        ([None, None], ["-", "-"]),
    ],
)
def test_decimals_ignore_zero_and_non_finite_numbers(cells, text):
    lines = Table(columns=["x"], rows=[[cell] for cell in cells]).text().splitlines()
    assert [line.strip() for line in lines[1:]] == text


def test_control_characters_of_data_are_escaped():
    table = Table(columns=("label",), rows=[["a\x1b[2Jb\nc"], ["\x85"]])
    assert table.text() == "label\na\\x1b[2Jb\\nc\n\\x85\n"
    assert "a\\x1b[2Jb\\nc" in table.markdown() and table.latex().count("\n") == 11

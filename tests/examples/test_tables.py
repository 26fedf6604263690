"""The tables of the examples' READMEs are those that the records give."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import example_tables  # noqa: E402
from run_records import load_runs  # noqa: E402

READMES = example_tables.list_readmes()


@pytest.mark.parametrize("readme", READMES, ids=[readme.parent.name for readme in READMES])
def test_tables_of_a_readme_are_current(readme):
    assert example_tables.regenerate(readme) == readme.read_text("utf-8"), (
        "run python tools/example_tables.py"
    )


@pytest.mark.parametrize("readme", READMES, ids=[readme.parent.name for readme in READMES])
def test_readme_has_every_table(readme):
    known = example_tables.tables(readme.parent.name, readme.parent)
    assert [key for _, key, _ in example_tables.TABLE.findall(readme.read_text("utf-8"))]
    for key in known:
        assert f"<!-- table: {key} -->" in readme.read_text("utf-8")


def test_wrong_digit_is_reported(tmp_path):
    example = tmp_path / "composite_bert"
    shutil.copytree(READMES[0].parents[1] / example.name, example)
    readme = example / "README.md"
    text = readme.read_text("utf-8")
    readme.write_text(text.replace("| composite | 4.475 |", "| composite | 4.474 |"), "utf-8")
    assert example_tables.regenerate(readme) == text != readme.read_text("utf-8")


@pytest.mark.parametrize("file", sorted((TOOLS.parent / "examples").glob("*/runs.jsonl")), ids=str)
def test_every_run_has_a_line_and_its_validations(file):
    runs = load_runs(file)
    assert len({run.name for run in runs}) == len(runs)
    for run in runs:
        assert run.record["config_digest"] and run.record["commit"] and run.config
        assert run.validations[-1]["update"] == run.record["updates"]


OVERVIEW = TOOLS.parent / "examples" / "README.md"
LINK = re.compile(r"\[results\]\((\w+)\)")
PRECISE = re.compile(r"\d+\.\d+")


def overview_rows():
    rows = [line.split(" | ") for line in OVERVIEW.read_text("utf-8").splitlines()]
    return [(row[0], row[2], row[3]) for row in rows if len(row) == 6]


@pytest.mark.parametrize(("table", "scale", "result"), overview_rows())
def test_overview_has_the_results_of_the_examples(table, scale, result):
    for name in LINK.findall(scale):
        text = (OVERVIEW.parent / name / "README.md").read_text("utf-8")
        assert not [number for number in PRECISE.findall(result) if number not in text]

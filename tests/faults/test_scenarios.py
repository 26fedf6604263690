"""Every scenario of the fault suite exists and is described in docs/guides/failure-modes.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs/guides/failure-modes.md"
NUMBERS = range(1, 31)


def files_of(number):
    return [path.name for path in HERE.glob(f"test_{number:02}_*.py")]


@pytest.mark.parametrize("number", NUMBERS)
def test_scenarios_have_a_file_and_a_line_in_the_docs(number):
    names = files_of(number)
    assert len(names) == 1, f"scenario {number} has the files {names}"
    row = re.search(rf"^\| {number} \|.*$", PAGE.read_text("utf-8"), re.M)
    assert row and f"tests/faults/{names[0]}" in row[0], f"{PAGE.name} lacks {names[0]}"


def test_files_belong_to_known_scenarios():
    known = {name for number in NUMBERS for name in files_of(number)}
    assert {path.name for path in HERE.glob("test_[0-9]*.py")} == known

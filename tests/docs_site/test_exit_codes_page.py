"""docs/reference/exit-codes.md has the exit codes of the commands."""

from __future__ import annotations

import re
from pathlib import Path

from toolkit.cli.command import EXIT_INTERRUPTED, EXIT_USER_ERROR
from toolkit.distributed.watchdog import PEER_FAILURE_EXIT_CODE
from toolkit.sweep import jobs
from toolkit.training.callbacks.stopping import SIGNALS

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs/reference/exit-codes.md").read_text(encoding="utf-8")


def codes(section: str) -> set[int]:
    """Numbers in the first column of the tables of a section."""
    text = PAGE[PAGE.index(f"## {section}\n") :]
    text = text[: text.find("\n## ", 1)]
    cells = re.findall(r"^\| ([\d, ]+) \|", text, re.M)
    return {int(code) for cell in cells for code in cell.split(",")}


def test_codes_of_all_commands_are_on_the_page():
    assert {0, 1, EXIT_USER_ERROR, EXIT_INTERRUPTED} <= codes("All commands")


def test_codes_of_training_are_on_the_page():
    stopped = {128 + number for number in SIGNALS}
    assert codes("toolkit-train") == {0, EXIT_USER_ERROR, PEER_FAILURE_EXIT_CODE, *stopped}


def test_codes_of_sweeps_are_on_the_page():
    stopped = {128 + number for number in jobs.SIGNALS}
    assert codes("Sweeps") == {0, 1, EXIT_USER_ERROR, *stopped}

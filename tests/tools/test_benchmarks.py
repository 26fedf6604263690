"""Every benchmark starts; the harness times programs in alternation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import harness  # noqa: E402

SCRIPTS = sorted(f for f in FOLDER.glob("*.py") if f.stem not in ("harness", "workloads"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_benchmark_explains_itself(script):
    found = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert found.returncode == 0 and "--report" in found.stdout


def test_readme_lists_every_benchmark():
    text = (FOLDER / "README.md").read_text("utf-8")
    assert not [script.name for script in SCRIPTS if f"`{script.name}`" not in text]


def test_alternate_takes_the_median_of_rounds_in_turn():
    order, times = [], iter(range(100))
    programs = {"one": lambda: order.append(1), "two": lambda: order.append(2)}
    found = harness.alternate(programs, 2, warm_up=1, clock=lambda: float(next(times)))
    assert order == [1, 2] * 3 and found == {"one": 1.0, "two": 1.0}


def test_publish_writes_a_dated_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(harness, "REPORTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks/some_speed.py"])
    harness.publish("a table", False, "Speed", "Title.\n\n    command\n")
    assert not list(tmp_path.iterdir())
    harness.publish("a table", True, "Speed", "Title.\n\n    command\n", "-128")
    (report,) = tmp_path.iterdir()
    assert report.name.endswith("-some-speed-128.md")
    assert report.read_text().splitlines()[2:] == ["    command", "", "a table"]
    assert "a table" in capsys.readouterr().out

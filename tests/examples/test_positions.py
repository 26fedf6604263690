"""examples/positions: its script, and tables and picture from records made by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import example_tables  # noqa: E402


def run(name, loss, accuracy, prefix=""):
    """A line of runs.jsonl; with the prefix `mlm_` one of the task mpm."""
    metrics = {"loss": 9.0, "mlm_loss": loss, f"{prefix}accuracy": accuracy}
    return {"run": name, "valid": {"valid": metrics}}


def result(path, accuracy, ties=0, **more):
    """A line of toolkit-validate --task minimal_pairs --results-path."""
    found = {"pairs": 200, "accuracy": accuracy, "standard_error": 0.01, "ties": ties}
    phenomena = [{**found, "name": "island_effects"}, {**found, "name": "binding"}]
    paradigms = [{**found, "name": f"{name}_1", "phenomenon": name} for name in ("binding", "npi")]
    head = {"task": "minimal_pairs", "scoring": "pseudo_log_likelihood", "normalization": "none"}
    return {**head, "path": path, "overall": found, "phenomena": phenomena, **more} | {
        "paradigms": paradigms
    }


RUNS = [
    run("positions/arch=order_none,seed=0", 5.0, 0.2),
    run("positions/arch=order_none,seed=1", 5.2, 0.3),
    run("positions/arch=order_taco,seed=0", 3.0, 0.5, "mlm_"),
    run("positions/arch=order_rope,seed=0", 3.5, 0.4),
    run("positions/arch=order_mine,seed=0", 3.5, 0.4),
]
RESULTS = [
    result("runs/arch=order_none,seed=0/checkpoint_last", 0.5, ties=20),
    result("anywhere", 0.54, ties=40, run="positions/arch=order_none,seed=1"),
    result("rope-0/checkpoint_last", 0.6),
]


def write(folder, name, lines):
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def records(tmp_path):
    write(tmp_path, "runs.jsonl", RUNS)
    write(tmp_path, "minimal_pairs.jsonl", RESULTS)
    return tmp_path


def test_variants_are_summarized_over_seeds(records):
    head, *rows = example_tables.tables("positions", records)["positions"]
    assert head == [
        *("positions", "seeds", "masked loss", "accuracy (%)"),
        *("BLiMP (%)", "standard error", "ties (%)"),
    ]
    assert rows == [
        ["none", "2", "5.100 ± 0.141", "25.0 ± 7.1", "52.00 ± 2.83", "1.00", "15.0"],
        ["rope", "1", "3.500", "40.0", "60.00", "1.00", "0.0"],
        ["taco", "1", "3.000", "50.0", "", "", ""],
    ]


def test_phenomena_are_rows_with_their_largest_standard_error(records):
    assert example_tables.tables("positions", records)["phenomena"] == [
        ["phenomenon", "none", "rope", "standard error"],
        ["binding", "52.0", "60.0", "1.0"],
        ["island effects", "52.0", "60.0", "1.0"],
    ]


def test_script_trains_taco_alone_with_masked_positions(tmp_path):
    command = tmp_path / "toolkit-train"
    command.write_text('#!/bin/sh\necho "$@" >> words\n')
    command.chmod(0o755)
    (tmp_path / "positions-data").mkdir()
    (tmp_path / "positions-data" / "meta.json").touch()
    script = ["bash", str(ROOT / "examples" / "positions" / "run.sh")]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TERMS": "rope,taco_words,taco"}
    subprocess.run([*script, "text.txt"], cwd=tmp_path, env=environment, check=True)
    first, second = (tmp_path / "words").read_text().splitlines()
    assert "--task mlm " in first and "arch=order_rope,order_taco_words " in first
    assert "--task mpm " in second and "arch=order_taco " in second


@pytest.mark.slow
def test_script_compares_variants_from_text_to_picture(commands, tmp_path):
    pytest.importorskip("matplotlib")
    text = [f"The {w} of page {i} sat on the mat, and so it was." for i in range(800) for w in "ab"]
    (tmp_path / "text.txt").write_text("\n".join(text) + "\n")
    pair = {"sentence_good": "The page sat.", "sentence_bad": "The sat page.", "UID": "order"}
    (tmp_path / "order.jsonl").write_text(json.dumps({**pair, "linguistics_term": "order"}) + "\n")
    asked = {"UPDATES": "1", "SEEDS": "0", "TERMS": "none", "VOCABULARY": "60", "BLIMP": "."}
    script = ["bash", str(ROOT / "examples" / "positions" / "run.sh"), "text.txt"]
    given = {"cwd": tmp_path, "env": {**commands, **asked}, "text": True}
    found = subprocess.run(script, **given, capture_output=True)
    assert found.returncode == 0, found.stdout + found.stderr
    runs = tmp_path / "positions-runs"
    assert (runs / "minimal_pairs.png").stat().st_size > 10_000
    tables = (runs / "tables.md").read_text()
    assert "| none | 1 |" in tables

"""examples/positions: its script."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


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
    line = json.dumps({**pair, "linguistics_term": "order"}) + "\n"
    (tmp_path / "order.jsonl").write_text(line * 2)
    asked = {"UPDATES": "1", "SEEDS": "0", "TERMS": "none", "VOCABULARY": "60", "BLIMP": "."}
    script = ["bash", str(ROOT / "examples" / "positions" / "run.sh"), "text.txt"]
    given = {"cwd": tmp_path, "env": {**commands, **asked}, "text": True}
    found = subprocess.run(script, **given, capture_output=True)
    assert found.returncode == 0, found.stdout + found.stderr
    runs = tmp_path / "positions-runs"
    assert (runs / "minimal_pairs.png").stat().st_size > 10_000
    tables = (runs / "tables.md").read_text()
    assert "| none | 1 |" in tables

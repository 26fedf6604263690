"""examples/ties: counts of pairs by rule, and the script."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import example_tables  # noqa: E402

COUNT = runpy.run_path(str(ROOT / "examples/ties/count.py"))


def pair(good, bad, tokens=(5, 5)):
    row = {"score_good": good, "score_bad": bad}
    return row | {"tokens_good": tokens[0], "tokens_bad": tokens[1]}


def test_rules_differ_in_which_scores_are_equal():
    rows = [
        pair(-60.0, -60.1),
        pair(-60.00001, -60.0),
        pair(-60.0, -60.0000001),
        pair(-60.0, -61.0, (5, 8)),
    ]
    rough = [pair(-60.25, -60.0), pair(-60.0, -60.01), pair(-60.0, -60.0), pair(-60.0, -61.0)]
    found = {name: np.sign(it).tolist() for name, it in COUNT["rules"](rows, rough).items()}
    assert found == {
        "sum": [1, 0, 0, 1],
        "exact": [1, -1, 0, 1],
        "decimals": [1, 0, 0, 1],
        "bf16_scores": [0, 0, 0, 1],
        "bf16_model": [-1, 0, 0, 1],
        "bf16_exact": [-1, 1, 0, 1],
        "mean": [1, 0, 0, -1],
        "length": [0, 0, 0, 1],
    }


@pytest.mark.slow
def test_script_counts_each_run_once(commands, tmp_path):
    text = [f"The {w} of page {i} sat on the mat, and so it was." for i in range(800) for w in "ab"]
    (tmp_path / "text.txt").write_text("\n".join(text) + "\n")
    rows = [("The page sat.", "The sat page."), ("The mat sat.", "The mat was.")]
    pairs = [{"sentence_good": good, "sentence_bad": bad, "UID": "order"} for good, bad in rows]
    (tmp_path / "order.jsonl").write_text("".join(json.dumps(it) + "\n" for it in pairs))
    asked = {"UPDATES": "1", "SEEDS": "0", "TERMS": "none", "VOCABULARY": "60", "BLIMP": "."}
    given = {"cwd": tmp_path, "env": {**commands, **asked, "RECORDS": "records"}, "text": True}
    script = ["bash", str(ROOT / "examples" / "ties" / "run.sh"), "text.txt"]
    for _ in range(2):
        found = subprocess.run(script, **given, capture_output=True)
        assert found.returncode == 0, found.stdout + found.stderr
    [line] = (tmp_path / "records" / "counts.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert (record["run"], record["pairs"], record["permuted"]) == ("none,seed=0", [2], [1])
    assert record["rules"]["sum"][1] == [1], "sentences of the same words are a tie"
    rules = example_tables.tables("ties", tmp_path / "records")["rules"]
    assert len(rules) == 9 and rules[1][4] == "50.0"

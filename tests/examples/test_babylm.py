"""examples/babylm: the script of ablations."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_script_compares_variants_and_computes_no_run_twice(commands, tmp_path):
    text = [
        f"The {w} of page {i} sat on the mat, and so it was." for i in range(9999) for w in "ab"
    ]
    (tmp_path / "text.txt").write_text("\n".join(text) + "\n")
    pair = {"sentence_good": "The page sat.", "sentence_bad": "The sat page."}
    for name in ("blimp_fast", "supplement_fast"):
        (tmp_path / "fast_eval" / name).mkdir(parents=True)
        (tmp_path / "fast_eval" / name / "order.jsonl").write_text(json.dumps(pair) + "\n")
    asked = {"WORDS": "1K", "SEEDS": "1", "VARIANTS": "base hybrid", "VOCABULARY": "300"}
    given = {"cwd": tmp_path, "env": {**commands, **asked, "EVAL": "."}, "text": True}
    script = ["bash", str(ROOT / "examples" / "babylm" / "ablations.sh"), "text.txt"]
    for _ in range(2):
        found = subprocess.run(script, **given, capture_output=True)
        assert found.returncode == 0, found.stdout + found.stderr
    lines = (tmp_path / "ablations-runs" / "loss.jsonl").read_text().splitlines()
    names = [json.loads(line)["checkpoint"].partition("/")[0] for line in lines]
    assert names == ["config=base.yaml,seed=1", "config=hybrid.yaml,seed=1"]
    assert "| hybrid | 1 |" in found.stdout and "| base | 1 | blimp |" in found.stdout

"""examples/babylm: paired differences from records made by hand, and the script of ablations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import example_tables  # noqa: E402


def loss(variant, seed, **metrics):
    return {"checkpoint": f"runs/config={variant}.yaml,seed={seed}/checkpoint_e1_u9", **metrics}


def test_differences_are_of_equal_seeds_and_of_masked_tokens_alone(tmp_path):
    lines = [loss("base", seed, loss=5.0 + seed) for seed in (1, 2, 3)]
    lines += [loss("muon", seed, loss=5.0 + seed + 0.1 * seed) for seed in (3, 1)]
    lines += [loss("hybrid", 2, loss=9.0, mntp_loss=6.5)]
    (tmp_path / "loss.jsonl").write_text("".join(json.dumps(it) + "\n" for it in lines))
    (tmp_path / "runs.jsonl").write_text("")
    head, *rows = example_tables.tables("babylm", tmp_path)["ablations"]
    assert head[2:5] == ["masked loss", "difference", "95 % interval"]
    assert rows == [
        ["base", "3", "7.000 ± 1.000", "", "", ""],
        ["hybrid", "1", "6.500", "-0.500", "", ""],
        ["muon", "2", "7.200 ± 1.556", "+0.200", "-1.071 to +1.471", ""],
    ]


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

"""examples/babylm: the scripts of the entry and of ablations."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETS = {
    "full_eval/blimp_filtered/principle_A_case_1.jsonl": 4,
    "full_eval/entity_tracking/regular.jsonl": 4,
    "full_eval/reading/reading_data.csv": 300,
    "full_eval/glue_filtered/rte.train.jsonl": 32,
    "full_eval/glue_filtered/rte.valid.jsonl": 8,
    "fast_eval/supplement_fast/hypernym.jsonl": 4,
}
"""Lines of each file of evaluation."""
TINY = """--arch.layers 1 --arch.width 32 --arch.heads 2 --arch.feed-forward-width 32 --batch-size 8
--tokens-per-sample 32 --num-workers 0 --max-words 1K --save-at-words 250,500,750,1K"""


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


@pytest.mark.slow
def test_script_writes_an_entry_and_resumes_it(commands, real_data, tmp_path):
    source, evaluation = real_data / "babylm", tmp_path / "evaluation"
    if not source.is_dir():
        pytest.skip(f"no {source}")
    for name, lines in {"dev/simple_wiki.txt": 300, **SETS}.items():
        (evaluation / name).parent.mkdir(parents=True, exist_ok=True)
        kept = (source / name).read_text().splitlines(keepends=True)[:lines]
        (evaluation / name).write_text("".join(kept))
    words = evaluation / "full_eval/cdi_childes/cdi_childes.json"
    words.parent.mkdir()
    words.write_text(json.dumps({"dog": [{"context": "I see a"}] * 20}))
    asked = {"VOCABULARY": "300", "EXTRA": TINY, "LIMIT": "2", "SEEDS": "1", "EVAL": "evaluation"}
    script = ["bash", str(ROOT / "examples/babylm/run.sh"), "evaluation/dev/simple_wiki.txt"]

    def run(**changes):
        env = {**commands, **asked, **changes}
        return subprocess.run(script, cwd=tmp_path, env=env, text=True, capture_output=True)

    missing, entry = run(EVAL=""), tmp_path / "babylm-entry"
    assert missing.returncode == 2 and not entry.exists()
    assert "EVAL= must name the folder" in missing.stderr and "RECIPE" in missing.stderr
    first = run(SEEDS="none")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "mean of 3 " in first.stdout and not (entry / "glue").exists()
    weights = entry / "run/checkpoint_last/model.safetensors"
    written = weights.stat().st_mtime_ns
    again = run()
    assert again.returncode == 0, again.stdout + again.stderr
    assert weights.stat().st_mtime_ns == written
    assert "kept        main, chck_" in again.stdout
    full, fast = (
        [json.loads(line)["set"] for line in (entry / name).read_text().splitlines()]
        for name in ("full.jsonl", "fast.jsonl")
    )
    assert full == ["blimp", "entity_tracking", "reading"] and fast == ["blimp_supplement"] * 4
    found = json.loads((entry / "export/predictions.json").read_text())
    assert {"blimp", "entity_tracking", "reading"} < {name for name in found if found[name]}
    assert len(found["aoa"]["results"]) == 4 * 20
    assert [*found["glue"]] == ["rte"] and [*found["fast_eval_results"]] == ["blimp_supplement"]
    assert "rte" in (entry / "export/main/README.md").read_text()

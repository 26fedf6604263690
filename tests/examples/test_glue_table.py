"""The table of GLUE's tasks, from runs made by hand."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "glue" / "glue_table.py"
NAMES = runpy.run_path(str(SCRIPT))
table, EIGHT_TASKS, NINE_TASKS = (NAMES[it] for it in ("table", "EIGHT_TASKS", "NINE_TASKS"))
COLUMNS = ["task", "n", "mean", "deviation", "error", "median", "best"]


def write(folder, seed, scores, lr=1.0, mismatched=()):
    """A run with these scores after its epochs."""
    place = folder / f"lr={lr},seed={seed}"
    place.mkdir(parents=True)
    events = [
        {"event": "valid", "subset": subset, "update": update, "score": score}
        for subset, found in (("valid", scores), ("valid_mismatched", mismatched))
        for update, score in enumerate(found, 1)
    ]
    (place / "metrics.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    config = {"optimizer": {"lr": lr}, "training": {"seed": seed}}
    (place / "result.json").write_text(json.dumps({"config": config}))


def test_table_uses_the_last_or_the_best_validation_of_each_seed(tmp_path):
    for seed, scores in enumerate(([0.9, 0.5], [0.6, 0.7], [0.5, 0.9])):
        write(tmp_path, seed, scores)
    (row,) = table([f"RTE={tmp_path}"]).rows
    assert row[:2] == ["RTE", 3]
    assert row[2:] == pytest.approx([70, 20, 20 / 3**0.5, 70, 90])
    (row,) = table([f"RTE={tmp_path}"], "best").rows
    assert row[2] == pytest.approx(100 * (0.9 + 0.7 + 0.9) / 3) and row[5] == pytest.approx(90)


def test_means_over_tasks_are_unweighted_with_the_deviation_of_the_seeds_means(tmp_path):
    words = []
    for task in (*EIGHT_TASKS[:-1], "MNLI"):
        for seed, score in enumerate((0.5, 0.7)):
            write(tmp_path / task, seed, [score], mismatched=[1.0] if task == "MNLI" else [])
        words.append(f"{task}={tmp_path / task}")
    found = table(words)
    assert list(found.columns) == COLUMNS
    nine, eight = found.rows[-2:]
    assert eight[0] == "mean of eight"
    assert eight[1:] == pytest.approx([2, 60, 200**0.5, 10, 60, 70])
    assert nine[2] == pytest.approx((8 * 60 + 100) / len(NINE_TASKS))

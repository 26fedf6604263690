"""Count the pairs that a run scores right and those that it ties, under several rules.

count.py FOLDER prints one JSON line. FOLDER is a save directory with the scores of fp32.jsonl and
bf16.jsonl, which toolkit-validate --predictions wrote. The two numbers of a rule give accuracies
with ties as one half, as right (the good sentence is the first one) and as wrong.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from toolkit.common.arrays import FloatArray
from toolkit.common.json_files import JsonObject

TOLERANCE = {"fp32": 1e-4, "bf16": 4e-2}
"""Differences of scores that toolkit-validate regards as rounding."""


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def columns(rows: list[dict[str, Any]], name: str) -> FloatArray:
    """The numbers of the good and of the bad sentence, 2 x N."""
    return np.array([[row[f"{name}_{which}"] for row in rows] for which in ("good", "bad")], float)


def count_words(sentence: str) -> Counter[str]:
    return Counter(re.findall(r"\w+|\S", sentence.lower()))


def rules(rows: list[dict[str, Any]], rough: list[dict[str, Any]]) -> dict[str, FloatArray]:
    """Rule -> score of the good minus that of the bad sentence, 0 for a tie."""
    scores, tokens, rounded = (
        columns(rows, "score"),
        columns(rows, "tokens"),
        columns(rough, "score"),
    )
    single = torch.from_numpy(scores).float()

    def compare(values: FloatArray, tolerance: float | FloatArray = 0.0) -> FloatArray:
        difference = values[0] - values[1]
        return np.where(np.abs(difference) <= tolerance, 0.0, difference)

    return {
        "sum": compare(scores, TOLERANCE["fp32"]),
        "exact": compare(single.numpy()),
        "decimals": compare(np.round(scores, 4)),
        "bf16_scores": compare(single.bfloat16().float().numpy()),
        "bf16_model": compare(rounded, TOLERANCE["bf16"]),
        "bf16_exact": compare(rounded),
        "mean": compare(scores / tokens, TOLERANCE["fp32"] / tokens.min(0)),
        "length": compare(-tokens),
    }


def count(folder: Path) -> JsonObject:
    rows, rough = (read_lines(folder / f"{name}.jsonl") for name in TOLERANCE)
    names = list(dict.fromkeys(row["paradigm"] for row in rows))
    place = np.array([names.index(row["paradigm"]) for row in rows])

    def by_paradigm(kept: Any) -> list[int]:
        return np.bincount(place, kept, len(names)).astype(int).tolist()

    found = rules(rows, rough)
    words = [[count_words(row[f"sentence_{which}"]) for which in ("good", "bad")] for row in rows]
    noise = found["sum"] == 0
    result = json.loads((folder / "result.json").read_text("utf-8"))
    valid = result["valid"]["valid"]
    accuracy = "mlm_accuracy" if "mlm_accuracy" in valid else "accuracy"  # of mpm, or of mlm
    return {
        "run": folder.name.removeprefix("order_"),
        **{"updates": result["updates"], "config_digest": result["config_digest"]},
        **{"loss": valid["mlm_loss"], "accuracy": valid[accuracy], "paradigms": names},
        "pairs": by_paradigm(np.ones(len(rows))),
        "permuted": by_paradigm(np.array([good == bad for good, bad in words])),
        "rules": {name: [by_paradigm(it > 0), by_paradigm(it == 0)] for name, it in found.items()},
        "noise": [
            by_paradigm(noise & (found["exact"] > 0)),
            by_paradigm(noise & (found["exact"] == 0)),
        ],
    }


if __name__ == "__main__":
    print(json.dumps(count(Path(sys.argv[1]))))

"""The table of examples/language_modeling, on runs made by hand; and the recipe."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from toolkit.config.load import load
from toolkit.config.train import TRAIN

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "language_modeling"


def trained(folder, seed, arch, ppls):
    (place := Path(f"{folder}seed={seed}")).mkdir(parents=True)
    lines = [
        {
            "event": "valid",
            "subset": "valid",
            "update": n,
            "ppl": ppl,
            "word_ppl": 2 * ppl,
            "loss": 1,
        }
        for n, ppl in enumerate(ppls)
    ]
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = {"training": {"seed": seed}, "arch": {"positions": "none", "relative": "none", **arch}}
    (place / "result.json").write_text(json.dumps({"config": config}))


def test_perplexities_after_the_last_update_are_summed_up_over_seeds(tmp_path):
    trained(tmp_path / "absolute" / "a,", 1, {"positions": "sinusoidal"}, [9.0, 4.0])
    trained(tmp_path / "absolute" / "a,", 2, {"positions": "sinusoidal"}, [5.0, 6.0])
    trained(tmp_path / "relative" / "b,", 1, {"relative": "shaw"}, [3.0])
    trained(tmp_path / "neither" / "_", 1, {}, [7.0])
    names = runpy.run_path(str(EXAMPLE / "table.py"))
    rows = {row[0]: row[1:] for row in names["table"](tmp_path).rows}
    assert rows["sinusoidal"][:3] == [2, "5.000 ± 1.414", "10.000 ± 2.828"]
    assert rows["shaw"][:2] == [1, "3.000"] and rows["neither"][1] == "7.000"
    assert len(rows) == 3


def test_the_recipe_is_one_that_training_takes():
    c = load(["data", "--config", str(EXAMPLE / "novels.yaml")], TRAIN).config
    assert c.task.name == "language_modeling"
    assert c.training.max_update % c.training.validate_interval_updates == 0

"""The table of the last validations."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from toolkit.common.errors import ToolkitError

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "last_figures.py"


def test_of_several_splits_the_first_is_told_and_an_unknown_figure_is_named(tmp_path):
    for seed, loss in enumerate((2.0, 3.0)):
        folder = tmp_path / f"seed={seed}"
        folder.mkdir()
        valid = {"event": "valid", "subset": "valid", "update": 1, "epoch": 1, "loss": loss}
        rows = [{**valid, "loss": 9.0}, valid, {**valid, "subset": "test", "loss": 7.0}]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = runpy.run_path(str(SCRIPT))["table"]
    ((_, n, loss),) = table(["loss"], [str(tmp_path)]).rows
    assert (n, loss) == (2, "2.5000 ± 0.7071")
    with pytest.raises(ToolkitError, match=r"must have a validation that tells auc, but .* has no"):
        table(["auc"], [str(tmp_path)])

"""The tables of examples/language_modeling, on runs made by hand; and the recipe."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "language_modeling"
TOOLS = EXAMPLE.parents[1] / "tools"
sys.path.insert(0, str(TOOLS))
from run_records import Run  # noqa: E402


def trained(name, options, ppls):
    validations = [
        {"update": n, "subset": "valid", "ppl": ppl} for n, ppl in enumerate(ppls, start=1)
    ]
    record = {"config": options, "valid": {"valid": {"word_ppl": 2 * ppls[-1]}}}
    return Run(name, record, validations)


def test_perplexities_are_averaged_over_seeds(tmp_path):
    runs = [
        trained("absolute/seed=1", {"arch.positions": "sinusoidal"}, [9.0, 4.0]),
        trained("absolute/seed=2", {"arch.positions": "sinusoidal"}, [5.0, 6.0]),
        trained("relative/seed=1", {"arch.positions": "shaw"}, [8.0, 3.0]),
        trained("neither/seed=1", {}, [9.0, 7.0]),
    ]
    tables = dict(
        runpy.run_path(str(TOOLS / "tables/language_modeling.py"))["tables"](runs, tmp_path)
    )
    head, neither, sinusoidal, shaw = tables["novels"]
    assert head[2:4] == ["ppl after 1 updates", "ppl after 2 updates"]
    assert sinusoidal[1:5] == ["2", "7.0 ± 2.8", "5.00 ± 1.41", "10.0 ± 2.8"]
    assert (neither[3], shaw[1], shaw[3]) == ("7.00", "1", "3.00")

import importlib

import pytest


@pytest.mark.parametrize("several", [["--seeds", "0,1"], ["--grid", "arch.layers=1,2"]])
def test_seeds_or_a_grid_start_a_sweep(several, monkeypatch):
    seen = []
    monkeypatch.setattr("toolkit.sweep.sweep.run_sweep", lambda *given: seen.append(given) or 3)
    words = ["data", "--arch", "bert_tiny", "--task", "mlm", *several]
    assert importlib.import_module("toolkit.cli.train").main(words) == 3
    assert seen[0][0] == words

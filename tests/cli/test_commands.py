import importlib
from types import SimpleNamespace

import pytest

from toolkit.cli.plot import KINDS
from toolkit.config.command import CommandGroup

COMMANDS = {
    "preprocess": "toolkit.data.preprocess.preprocess",
    "train": "toolkit.training.run.run",
    "validate": "toolkit.commands.validate.evaluate_checkpoints",
    "generate": "toolkit.commands.generate.generate",
    "average": "toolkit.commands.average.average",
    "convert": "toolkit.conversion.convert.convert",
    "plot": "toolkit.analysis.curve.plot_curves",
}
WORDS = {
    "preprocess": ["--trainpref", "a.txt", "--workers", "2"],
    "train": ["data", "--arch", "bert_tiny", "--task", "mlm"],
    "validate": ["data", "--path", "one", "two", "--valid-subset", "valid,test"],
    "generate": ["fill-mask", "--task", "mlm", "--path", "run", "--input", "-"],
    "average": ["run", "--last", "3", "--output", "averaged"],
    "convert": ["import", "bert", "ours"],
    "plot": ["curve", "run", "--output", "x.png"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_calls_one_function_with_its_config(command, monkeypatch):
    seen, result = [], SimpleNamespace(exit_code=0)
    answer = result if command == "train" else None
    monkeypatch.setattr(COMMANDS[command], lambda config, **_: seen.append(config) or answer)
    module = importlib.import_module(f"toolkit.cli.{command}")
    assert module.main(WORDS[command]) == 0
    chosen = module.COMMAND
    if isinstance(chosen, CommandGroup):
        chosen = chosen.commands[WORDS[command][0]]
    assert [type(config) for config in seen] == [chosen.config]


def test_words_of_a_command_reach_its_config(monkeypatch):
    seen = []
    monkeypatch.setattr(COMMANDS["validate"], seen.append)
    importlib.import_module("toolkit.cli.validate").main(WORDS["validate"])
    assert (seen[0].dirs, seen[0].path) == (["data"], ["one", "two"])


@pytest.mark.parametrize("several", [["--seeds", "0,1"], ["--grid", "arch.layers=1,2"]])
def test_seeds_or_a_grid_start_a_sweep(several, monkeypatch):
    seen = []
    monkeypatch.setattr("toolkit.sweep.sweep.run_sweep", lambda *given: seen.append(given) or 3)
    words = [*WORDS["train"], *several]
    assert importlib.import_module("toolkit.cli.train").main(words) == 3
    assert seen[0][0] == words


@pytest.mark.parametrize("command", KINDS, ids=lambda command: command.name)
def test_each_kind_of_plot_calls_its_function(command, monkeypatch):
    seen, kind = [], command.config.word
    monkeypatch.setattr(command.act.replace(":", "."), seen.append)
    of_runs = kind in ("curve", "confusion", "minimal-pairs")
    words = [kind, "run"] if of_runs else [kind, "--path", "run"]
    words += ["--sentences", "text.txt"] * (kind in ("kernels", "attention", "perturbation"))
    assert importlib.import_module("toolkit.cli.plot").main(words) == 0
    assert seen[0].word == kind

import importlib
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.cli.toolkit import COMMANDS, main

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def test_subcommands_are_the_installed_commands():
    scripts = {f'toolkit-{name} = "toolkit.cli.{name}:main"' for name in COMMANDS}
    lines = PYPROJECT.read_text(encoding="utf-8").splitlines()
    found = {line for line in lines if line.startswith("toolkit") and ":main" in line}
    assert found == {*scripts, 'toolkit = "toolkit.cli.toolkit:main"'}


@pytest.mark.parametrize("command", ["average", "train"])
def test_subcommand_gets_the_words_after_it_and_returns_its_exit_code(command, monkeypatch):
    seen = []
    module = importlib.import_module(f"toolkit.cli.{command}")
    monkeypatch.setattr(module, "main", lambda words: seen.append(words) or 143)
    assert main([command, "data", "--lr", "1"]) == 143
    assert seen == [["data", "--lr", "1"]]


@pytest.mark.parametrize("words", [[], ["help"]])
def test_help_lists_every_command_with_its_summary(words, capsys):
    assert main(words) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: toolkit COMMAND [options]\n\nA sequence modeling toolkit")
    unwrapped = " ".join(text.split())
    for name, summary in COMMANDS.items():
        assert f"\n  {name} " in text and summary in unwrapped


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("trian", "no command is called 'trian'. Did you mean train? Commands: preprocess, train"),
        ("--arch", "the first word must be a command, but is '--arch': one of preprocess, train"),
    ],
)
def test_unknown_command_is_one_line_and_exit_code_2(word, message, capsys):
    assert main([word, "data"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"toolkit: {message}") and err.count("\n") == 1


def test_package_runs_as_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["toolkit", "--version"])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_module("toolkit", run_name="__main__")
    assert exit_.value.code == 0 and capsys.readouterr().out.startswith("toolkit ")


def test_help_imports_no_command():
    code = "import sys; from toolkit.cli.toolkit import main; main([]); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.splitlines()[-1].split())
    assert not loaded & {"torch", "numpy", "yaml", *(f"toolkit.cli.{name}" for name in COMMANDS)}

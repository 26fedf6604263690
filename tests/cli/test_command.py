"""Entry points: parsing, errors, exit codes, start-up."""

import importlib
import os
import re
import runpy
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from toolkit.cli.command import execute
from toolkit.cli.toolkit import COMMANDS, main
from toolkit.common.errors import ToolkitError
from toolkit.config.command import Command


@dataclass(frozen=True, kw_only=True)
class Config:
    count: int = 1
    """How many."""


COMMAND = Command(name="toolkit-test", summary="", example="", config=Config)


def test_user_error_is_one_line_on_stderr_and_exit_code_2(capsys):
    def mistaken(_):
        raise ToolkitError("one must be two,\nbut is three.")

    assert execute(replace(COMMAND, act=mistaken), []) == 2
    assert capsys.readouterr() == ("", "toolkit-test: one must be two, but is three.\n")


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_lack_of_memory_is_one_line_on_stderr_and_exit_code_2(error, capsys):
    def grow(_):
        raise error("Unable to allocate 4 TiB\nmore")

    assert execute(replace(COMMAND, act=grow), []) == 2
    assert re.fullmatch(
        r"toolkit-test: out of memory: Unable to allocate 4 TiB\. Use .*\n", capsys.readouterr().err
    )


def test_interruption_is_exit_code_130():
    def interrupted(_):
        raise KeyboardInterrupt

    assert execute(replace(COMMAND, act=interrupted), []) == 130


def test_other_exceptions_keep_their_traceback():
    with pytest.raises(ZeroDivisionError):
        execute(replace(COMMAND, act=lambda loaded: 1 // 0), [])


def test_closed_reader_is_no_error():
    command = f"{sys.executable} -m toolkit.cli.train --help | head -c 1"
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


LIST = "-m toolkit.cli.train --list archs"
UNKNOWN = "-m toolkit.cli.train --list nonsense"


def run_in_shell(arguments, redirections):
    command = f"{sys.executable} {arguments} {redirections}"
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ran = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=environment
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_output_to_a_full_disk_is_one_line():
    code, _, stderr = run_in_shell(LIST, ">/dev/full")
    assert code == 2 and stderr.count("\n") == 1
    assert stderr.endswith(": cannot write standard output: No space left on device.\n")


def test_closed_output_is_one_line():
    assert run_in_shell(LIST, ">&-") == (
        2,
        "",
        "toolkit-train: cannot write standard output: Bad file descriptor.\n",
    )


def test_error_that_cannot_be_printed_keeps_its_exit_code():
    for redirection in ("<&- >&- 2>&-", ">/dev/full 2>/dev/full"):
        assert run_in_shell(UNKNOWN, redirection) == (2, "", "")


def test_argument_that_is_not_utf8_is_one_line():
    code, _, stderr = run_in_shell(LIST, "$'a\\xffb'")
    assert (code, stderr) == (
        2,
        "toolkit-train: '--list archs a\\udcffb' is not UTF-8. Rename the file, or convert its "
        "text.\n",
    )


@pytest.mark.parametrize("several", [["--seeds", "0,1"], ["--grid", "arch.layers=1,2"]])
def test_seeds_or_a_grid_start_a_sweep(several, monkeypatch):
    seen = []
    monkeypatch.setattr("toolkit.sweep.sweep.run_sweep", lambda *given: seen.append(given) or 3)
    words = ["data", "--arch", "bert_tiny", "--task", "mlm", *several]
    assert importlib.import_module("toolkit.cli.train").main(words) == 3
    assert seen[0][0] == words


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


def test_package_runs_as_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["toolkit", "--version"])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_module("toolkit", run_name="__main__")
    assert exit_.value.code == 0 and capsys.readouterr().out.startswith("toolkit ")


SLOW = ["torch._dynamo", "torch._inductor", "torch.distributed.tensor", "torch.distributed.fsdp"]
SLOW += ["tensorboard", "scipy", "sacrebleu", "matplotlib", "transformers", "pyarrow"]
PROGRAM = f"""
import sys
from toolkit.cli import predict, train
trained = train.main(sys.argv[1:])
predict.main(["--path", sys.argv[-1]])  # says that mlm has no predictions, with the model loaded
print(trained, *(name for name in {SLOW} if name in sys.modules), sep="|")
"""


@pytest.mark.slow
def test_training_and_predicting_import_neither_dynamo_nor_fsdp(data, tmp_path, repository):
    words = [str(data), "--arch", "taco_tiny", "--task", "mpm", "--max-update", "1"]
    words += ["--optimizer", "muon"]  # with AdamW inside
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, "--save-dir", str(tmp_path / "run")],
        env=os.environ | {"PYTHONPATH": str(repository)},
        input="a line\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines()[-1] == "0"


OTHER_SYSTEM = """
import os, signal, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
for owner, names in {os: ("O_NONBLOCK", "sysconf"), signal: ("SIGUSR1", "SIGHUP")}.items():
    for name in names:
        delattr(owner, name)
from toolkit.cli import train
sys.exit(train.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_training_needs_no_module_that_windows_lacks(data, tmp_path, repository):
    words = [str(data), "--arch", "taco_tiny", "--task", "mpm", "--max-update", "2"]
    run = subprocess.run(
        [sys.executable, "-c", OTHER_SYSTEM, *words],
        env=os.environ | {"PYTHONPATH": str(repository)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "runs/taco_tiny-mpm/result.json").exists()
    assert "next: toolkit-generate fill-mask --path runs/taco_tiny-mpm\n" in run.stderr

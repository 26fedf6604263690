import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest
import torch

from toolkit.cli.command import execute
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

import os
import subprocess
import sys

import pytest

LIST = "-m toolkit.cli.train --list archs"
UNKNOWN = "-m toolkit.cli.train --unknown"


def run_in_shell(arguments, redirections):
    command = f"{sys.executable} {arguments} {redirections}"
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ran = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=environment
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize("command", [LIST, "-m toolkit.cli.toolkit --help"])
def test_output_to_a_full_disk_is_one_line(command):
    code, _, stderr = run_in_shell(command, ">/dev/full")
    assert code == 2 and stderr.count("\n") == 1
    assert stderr.endswith(": cannot write standard output: No space left on device.\n")


def test_closed_output_is_one_line():
    assert run_in_shell(LIST, ">&-") == (
        2,
        "",
        "toolkit-train: cannot write standard output: Bad file descriptor.\n",
    )


def test_error_that_cannot_be_printed_keeps_its_exit_code():
    for redirection in ("2>&-", "2>/dev/full", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"):
        assert run_in_shell(UNKNOWN, redirection) == (2, "", "")


def test_closed_input_and_messages_do_not_matter_to_output():
    code, stdout, stderr = run_in_shell(LIST, "<&- 2>&-")
    assert code == 0 and "bert_tiny" in stdout and stderr == ""


def test_closed_input_is_an_error_for_commands_that_read_it(tmp_path):
    arguments = f"-m toolkit.cli.preprocess --trainpref - --destdir {tmp_path / 'data'}"
    code, _, stderr = run_in_shell(arguments, "<&-")
    assert (code, stderr) == (2, "toolkit-preprocess: standard input: Bad file descriptor.\n")


def test_argument_that_is_not_utf8_is_one_line():
    code, _, stderr = run_in_shell(LIST, "$'a\\xffb'")
    assert (code, stderr) == (
        2,
        "toolkit-train: 'a\\udcffb' is not UTF-8. Rename the file, or retype it.\n",
    )

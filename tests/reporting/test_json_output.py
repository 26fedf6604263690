import json
import math
import sys

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.reporting.console import Output
from toolkit.reporting.sinks import JsonLinesSink


def test_output_writes_json_lines_with_their_event(tmp_path):
    with Output(str(tmp_path / "out")) as output:
        output.write("valid", {"loss": math.inf, "name": "a"})
        output.write("end", {})
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert lines == [{"event": "valid", "loss": "Infinity", "name": "a"}, {"event": "end"}]


def test_output_to_a_dash_prints_json_on_stdout_and_text_on_stderr(capsys):
    with Output("-") as output:
        output.write("end", {"n": 1})
        output.console.print("for people")
    assert output.text_stream is sys.stderr
    said = capsys.readouterr()
    assert said.out == '{"event": "end", "n": 1}\n' and said.err == "for people\n"


def test_output_rejects_an_unwritable_file_before_the_work(tmp_path):
    with pytest.raises(ToolkitError, match="Cannot write --json"):
        Output(str(tmp_path / "nowhere" / "out"))


def test_output_overwrites_only_files_written_by_json(tmp_path):
    text, figures = tmp_path / "text", tmp_path / "figures"
    text.write_text("a sentence\n")
    with pytest.raises(ToolkitError, match=r"--json must name a new file or one written by"):
        Output(str(text))
    assert text.read_text() == "a sentence\n"
    for n in (1, 2):
        with Output(str(figures)) as output:
            output.write("end", {"n": n})
    assert figures.read_text() == '{"event": "end", "n": 2}\n'


def test_output_never_overwrites_the_log_of_a_run(tmp_path):
    log = JsonLinesSink(tmp_path / "metrics.jsonl")
    log.write("valid", {"update": 3, "epoch": 1, "subset": "valid", "loss": 2.5})
    log.close()
    before = log.path.read_bytes()
    with pytest.raises(ToolkitError, match=r"metrics.jsonl holds something else"):
        Output(str(log.path))
    assert log.path.read_bytes() == before

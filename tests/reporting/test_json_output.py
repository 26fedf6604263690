import json
import math
import sys

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.reporting.json_output import Output
from toolkit.reporting.sinks import JsonLinesSink


def test_figures_are_json_lines_that_name_their_event(tmp_path):
    with Output(str(tmp_path / "out")) as output:
        output.write("valid", {"loss": math.inf, "name": "a"})
        output.write("end", {})
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert lines == [{"event": "valid", "loss": "Infinity", "name": "a"}, {"event": "end"}]


def test_a_dash_leaves_standard_output_to_the_json(capsys):
    with Output("-") as output:
        output.write("end", {"n": 1})
        output.console.print("for people")
    assert output.text_stream is sys.stderr
    said = capsys.readouterr()
    assert said.out == '{"event": "end", "n": 1}\n' and said.err == "for people\n"


def test_without_a_file_people_read_standard_output(capsys):
    with Output(None) as output:
        output.write("end", {"n": 1})
        print("table", file=output.text_stream)
    assert capsys.readouterr().out == "table\n"


def test_a_file_that_cannot_be_written_is_told_before_the_work(tmp_path):
    with pytest.raises(ToolkitError, match=r"--json must be a file that can be written, or -, but"):
        Output(str(tmp_path / "nowhere" / "out"))


def test_a_file_of_something_else_is_left_as_it_is_and_one_of_figures_written_anew(tmp_path):
    text, figures = tmp_path / "text", tmp_path / "figures"
    text.write_text("a sentence\n")
    with pytest.raises(ToolkitError, match=r"--json must be a new file or one of figures, but"):
        Output(str(text))
    assert text.read_text() == "a sentence\n"
    for n in (1, 2):
        with Output(str(figures)) as output:
            output.write("end", {"n": n})
    assert figures.read_text() == '{"event": "end", "n": 2}\n'


def test_the_log_of_a_run_is_no_file_of_figures_to_be_written_anew(tmp_path):
    log = JsonLinesSink(tmp_path / "metrics.jsonl")
    log.write("valid", {"update": 3, "epoch": 1, "subset": "valid", "loss": 2.5})
    log.close()
    before = log.path.read_bytes()
    with pytest.raises(ToolkitError, match=r"metrics.jsonl holds something else, which would be"):
        Output(str(log.path))
    assert log.path.read_bytes() == before

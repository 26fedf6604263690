import io
import json
import math
import os
import sys

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.reporting.console import Console, Output, Progress, TrainingConsole
from toolkit.reporting.sinks import JsonLinesSink
from toolkit.reporting.tables import Table

TRAIN = {
    "update": 100,
    "epoch": 1,
    "loss": 5.3214,
    "lr": 3e-4,
    "tokens_per_second": 43210.9,
    "updates_per_second": 2.0,
    "data_wait_rate": 0.01,
}


def written(*events, terminal=False, progress="auto"):
    out = io.StringIO()
    screen = Console(file=out, force_terminal=terminal, width=100, color_system=None)
    console = TrainingConsole(progress, total_updates=1000, console=screen)
    for event, values in events:
        console.write(event, values)
    console.close()
    return out.getvalue()


def test_console_without_a_terminal_prints_one_line_per_report():
    line = written(("train", TRAIN))
    assert line.count("\n") == 1
    assert " ".join(line.split()) == (
        "train update 100/1000 epoch 1 loss 5.321 lr 3.00e-04 "
        "43,211 tokens/s 2.00 updates/s 7:30 left"
    )


def test_console_on_a_terminal_shows_a_bar_and_a_line_per_validation():
    valid = {"update": 100, "epoch": 1, "subset": "valid", "loss": 4.0, "accuracy": 0.25}
    out = written(("train", TRAIN), ("valid", valid), ("train", TRAIN), terminal=True)
    assert "100/1000" in out and "43,211 tokens/s" in out and "7:30 left" in out
    assert "valid  update  100/1000  epoch   1  valid  loss 4.000   accuracy 0.250\n" in out
    assert "train  update" not in out


def test_forced_color_makes_neither_bars_nor_narrow_tables_in_a_pipe(monkeypatch):
    """Jupyter and GitHub set the variable, and read what commands print from a pipe."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    out, cell = io.StringIO(), "a long cell " * 12
    console = Console(file=out)
    Table(columns=["x"], rows=[[cell]]).print(console)
    screen = TrainingConsole(total_updates=1000, console=console)
    screen.write("train", TRAIN)
    screen.close()
    _, row, line = out.getvalue().splitlines()
    assert row == cell.rstrip() and line.startswith("train  update  100/1000")


def test_console_without_a_bar_is_silent_for_ten_seconds_or_a_hundredth_of_the_run():
    out, times = io.StringIO(), [0.0]
    console = TrainingConsole(
        total_updates=1000, console=Console(file=out, width=100), now=lambda: times[0]
    )
    console.advance(1)
    console.write("train", {"update": 1, "loss": 5.0})
    for times[0], update in ((9.0, 10), (12.0, 13), (21.0, 22), (23.0, 24), (5000.0, 100)):
        console.advance(update)
    console.write("valid", {"update": 100, "loss": 5.0})
    for times[0], update in ((5049.0, 149), (5051.0, 151)):
        console.advance(update)
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert lines == [
        "train update 1/1000 loss 5.000",
        "train update 13/1000 1.00 updates/s 16:27 left",
        "train update 24/1000 1.00 updates/s 16:16 left",
        "train update 100/1000 0.02 updates/s 16:22:18 left",
        "valid update 100/1000 loss 5.000",
        "train update 151/1000 1.00 updates/s 14:09 left",
    ]
    with console.progress("validating valid", 900, "examples") as progress:
        progress.now = iter([progress.started_at + s for s in (50, 52, 60, 110)]).__next__
        for _ in range(4):
            progress.advance(100)
    assert out.getvalue().splitlines()[6:] == [
        "validating valid: 200 of 900 examples, 4 examples/s, 3:02 left",
        "validating valid: 400 of 900 examples, 4 examples/s, 2:18 left",
    ]


@pytest.fixture
def make_progress():
    """A progress that prints to a text buffer, the buffer, and the time that it reads."""

    def make(total, unit="examples", **options):
        out, times = io.StringIO(), [0.0]
        console = Console(file=out, width=120, **options)
        now = lambda: times[0]  # noqa: E731
        return Progress("validating", total, unit, console=console, now=now), out, times

    return make


def test_progress_without_a_terminal_is_a_line_every_five_seconds(make_progress):
    progress, out, times = make_progress(900)
    with progress:
        for times[0] in (2.0, 4.0, 6.0, 8.0):
            progress.advance(60)
    assert out.getvalue() == "validating: 180 of 900 examples, 30 examples/s, 0:24 left\n"


def test_console_leaves_a_closed_pipe_to_its_caller():
    reader, writer = os.pipe()
    os.close(reader)
    file = io.TextIOWrapper(io.FileIO(writer, "w"), write_through=True)
    with pytest.raises(BrokenPipeError):
        Console(file=file).print("text")


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
    with pytest.raises(FileNotFoundError, match="nowhere"):
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

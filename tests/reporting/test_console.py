import io

from toolkit.reporting.console import TrainingConsole
from toolkit.reporting.plain_text import Console

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


def test_console_aligns_the_columns_of_its_lines():
    first, second = written(
        ("train", TRAIN), ("train", {**TRAIN, "update": 1000, "loss": 12.0})
    ).splitlines()
    assert first.index("lr") == second.index("lr")
    assert first.index("updates/s") == second.index("updates/s")


def test_console_lines_are_neither_wrapped_nor_colored():
    line = written(("save", {"update": 5, "path": "[bold]" + "x" * 300}))
    assert line == "save   update    5/1000  [bold]" + "x" * 300 + "\n"


def test_console_on_a_terminal_shows_a_bar_and_a_line_per_validation():
    valid = {"update": 100, "epoch": 1, "subset": "valid", "loss": 4.0, "accuracy": 0.25}
    out = written(("train", TRAIN), ("valid", valid), ("train", TRAIN), terminal=True)
    assert "100/1000" in out and "43,211 tokens/s" in out and "7:30 left" in out
    assert "valid  update  100/1000  epoch   1  valid  loss 4.000   accuracy 0.250\n" in out
    assert "train  update" not in out


def test_console_prints_lines_on_a_terminal_if_asked():
    assert "train  update" in written(("train", TRAIN), terminal=True, progress="lines")


def test_console_omits_missing_metrics():
    assert written(("train", {"update": 1, "loss": None})).split() == ["train", "update", "1/1000"]


def a_console(terminal):
    out = io.StringIO()
    screen = Console(file=out, force_terminal=terminal, width=100, color_system=None)
    return TrainingConsole(total_updates=1000, console=screen), out


def test_console_shows_a_second_bar_during_validation():
    console, out = a_console(terminal=True)
    console.write("train", TRAIN)
    with console.progress("validating valid", 900, "examples") as progress:
        progress.advance(300)
        console.bar.refresh()
        assert [task.completed for task in console.bar.tasks] == [100, 300]
    assert len(console.bar.tasks) == 1 and "300 of 900 examples" in out.getvalue()
    console.close()


def test_console_without_a_bar_prints_a_progress_line_per_minute():
    console, out = a_console(terminal=False)
    with console.progress("validating valid", 900, "examples") as progress:
        progress.now = iter([progress.started_at + s for s in (10, 61, 70, 121)]).__next__
        for _ in range(4):
            progress.advance(100)
    assert out.getvalue().splitlines() == [
        "validating valid: 200 of 900 examples, 3 examples/s, 3:34 left",
        "validating valid: 400 of 900 examples, 3 examples/s, 2:31 left",
    ]


def test_console_shows_each_of_several_objectives():
    figures = {"update": 5, "loss": 9.0, "mlm_loss": 6.0, "mpm_loss": 3.0, "mpm_accuracy": 0.25}
    several = written(("valid", {**figures, "subset": "valid"}))
    assert "valid  mlm 6.000  mpm 3.000  mpm accuracy 0.250  loss 9.000" in several
    assert "mlm" not in written(("valid", {"update": 5, "loss": 6.0, "mlm_loss": 6.0}))


def test_console_shows_translation_scores():
    line = written(("valid", {"update": 5, "ppl": 8.0, "bleu": 31.126, "chrf": 58.4}))
    assert line.split("  ")[-2:] == ["bleu 31.13", "chrf 58.40\n"]

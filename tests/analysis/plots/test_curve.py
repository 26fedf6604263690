import json
import sys

import pytest

from toolkit.analysis.plots.curve import Curve, CurveLine, draw_line, plot_curves
from toolkit.analysis.plots.style import new_figure
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import CurveConfig
from toolkit.metrics.seed_summary import summarize


def save(folder, losses):
    folder.mkdir()
    train = [{"event": "train", "update": u, "loss": loss} for u, loss in losses.items()]
    valid = [{**r, "event": "valid", "subset": "valid", "loss": r["loss"] - 1} for r in train]
    valid = [{**r, "accuracy": 1 / r["loss"]} for r in valid]
    lines = "".join(json.dumps(record) + "\n" for record in [*train, *valid])
    (folder / "metrics.jsonl").write_text(lines)
    return str(folder)


@pytest.fixture
def drawn(tmp_path):
    """The text of a picture of runs with these final losses."""

    def draw(names, **options):
        folders = [save(tmp_path / n, {1: 4.0, 2: 3.0 + i}) for i, n in enumerate(names)]
        output = tmp_path / "curve.svg"
        plot_curves(CurveConfig(runs=folders, output=str(output), **options))
        return output.read_text()

    return draw


@pytest.mark.parametrize(
    "ending, magic", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_picture_is_of_the_kind_that_its_ending_says(tmp_path, ending, magic):
    output = tmp_path / f"new/curve.{ending}"
    folder = save(tmp_path / "run", {1: 4.0, 2: 3.0})
    plot_curves(CurveConfig(runs=[folder], output=str(output)))
    assert output.read_bytes().startswith(magic)


def test_several_configurations_have_a_line_and_a_legend_each_in_the_order_of_their_ends(drawn):
    text = drawn("ab")
    assert text.index("<!-- b -->") < text.index("<!-- a -->")


def test_several_figures_stand_side_by_side_under_one_legend(drawn):
    text = drawn("ab", metric=["loss", "accuracy"])
    assert "<!-- loss on valid -->" in text and "<!-- accuracy on valid -->" in text
    assert text.count("<!-- a -->") == 1


def test_one_configuration_shows_training_and_validation(drawn):
    text = drawn("a", smoothing=0.5, log_scale=True, log_updates=True, title="Both")
    assert "<!-- train -->" in text and "<!-- valid -->" in text and "<!-- Both -->" in text


def test_a_figure_that_was_validated_once_and_not_in_training_is_a_point(tmp_path):
    output = tmp_path / "curve.svg"
    runs = [save(tmp_path / "run", {1: 4.0})]
    plot_curves(CurveConfig(runs=runs, output=str(output), metric=["accuracy"]))
    assert "<!-- valid -->" in output.read_text()


def test_a_single_validation_is_left_out_where_training_has_a_curve(tmp_path):
    folder, output = save(tmp_path / "run", {1: 4.0, 2: 3.0}), tmp_path / "curve.svg"
    log = tmp_path / "run" / "metrics.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:3]))
    plot_curves(CurveConfig(runs=[folder], output=str(output)))
    assert "<!-- loss on train -->" in output.read_text()


@pytest.mark.parametrize(("subset", "lines"), [("train", 2), ("valid", 1)])
def test_only_training_is_smoothed_and_shown_as_it_was_behind(subset, lines):
    axes = new_figure(4.0, 3.0).subplots()
    found = Curve([1, 2], [summarize([4.0]), summarize([2.0])], 1)
    c = CurveConfig(runs=["run"], output="x.svg", smoothing=0.5)
    draw_line(axes, CurveLine("run", subset, found, 0), "run", c)
    assert len(axes.get_lines()) == lines
    assert (axes.get_lines()[-1].get_ydata()[-1] == 2.0) == (subset == "valid")


def test_the_numbers_of_a_curve_are_json_lines(tmp_path, capsys):
    folder = save(tmp_path / "run", {1: 4.0, 2: 3.0})
    output = str(tmp_path / "x.png")
    plot_curves(CurveConfig(runs=[folder], output=output, json="-", subset="valid"))
    said = capsys.readouterr()
    record = json.loads(said.out)
    assert record["metric"] == "loss" and record["mean"] == [3.0, 2.0] and said.err == f"{output}\n"


def test_a_figure_that_only_one_validation_has_is_drawn_all_the_same(tmp_path):
    folder, output = save(tmp_path / "a", {1: 4.0}), tmp_path / "curve.svg"
    plot_curves(CurveConfig(runs=[folder], output=str(output), metric=["accuracy"]))
    assert "<!-- accuracy" in output.read_text()


def test_a_figure_that_was_not_logged_is_answered_with_those_that_were(drawn):
    with pytest.raises(ToolkitError, match=r"logged 'bleu' .* Logged: train/loss, valid/accuracy"):
        drawn("a", metric=["bleu"])


def test_seeds_that_have_no_update_in_common_are_told_of(tmp_path):
    runs = [save(tmp_path / f"x,seed={u}", {u: 4.0}) for u in (1, 2)]
    with pytest.raises(ToolkitError, match=r"the seeds of x have logged .* at no common update"):
        plot_curves(CurveConfig(runs=runs, output=str(tmp_path / "x.png")))


def test_without_matplotlib_one_line_says_what_to_install(drawn, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ToolkitError, match=r"requires matplotlib.*pip install 'toolkit-seq"):
        drawn("a")

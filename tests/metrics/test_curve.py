import json
import sys

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.plot import PlotConfig
from toolkit.metrics.curve import curve, curve_of
from toolkit.metrics.runs import Run


def run(folder, losses, seed=1):
    train = [{"event": "train", "update": u, "loss": loss} for u, loss in losses.items()]
    valid = [{**r, "event": "valid", "subset": "valid", "loss": r["loss"] - 1} for r in train]
    return Run(folder, [*train, {"event": "save", "update": 1}, *valid], {"seed": seed})


def save(folder, losses):
    folder.mkdir()
    lines = "".join(json.dumps(record) + "\n" for record in run(folder, losses).records)
    (folder / "metrics.jsonl").write_text(lines)
    return str(folder)


def test_a_curve_is_the_mean_and_deviation_where_every_run_reported(tmp_path):
    runs = [run(tmp_path, {1: 4.0, 2: 3.0, 3: 2.0}), run(tmp_path, {1: 6.0, 2: 5.0})]
    found = curve_of(runs, "valid", "loss")
    assert (found.updates, found.runs) == ([1, 2], 2)
    assert [(s.mean, s.deviation) for s in found.figures] == [(4.0, 2.0**0.5), (3.0, 2.0**0.5)]


def test_a_loss_that_is_not_a_number_leaves_a_gap(tmp_path):
    assert curve_of([run(tmp_path, {1: 4.0, 2: float("nan")})], "train", "loss").updates == [1]


@pytest.mark.parametrize(
    "ending, magic", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_picture_is_of_the_kind_that_its_ending_says(tmp_path, ending, magic):
    output = tmp_path / f"new/curve.{ending}"
    folder = save(tmp_path / "run", {1: 4.0, 2: 3.0})
    curve(PlotConfig(what=["curve", folder], output=str(output)))
    assert output.read_bytes().startswith(magic)


def test_several_configurations_have_a_line_and_a_legend_each(tmp_path):
    folders = [save(tmp_path / name, {1: loss, 2: loss - 1}) for name, loss in (("a", 3), ("b", 4))]
    output = tmp_path / "curve.svg"
    curve(PlotConfig(what=["curve", *folders], output=str(output)))
    text = output.read_text()
    assert "<!-- a -->" in text and "<!-- b -->" in text
    assert text.index("<!-- b -->") < text.index("<!-- a -->")  # in the order of the lines' ends


def test_a_figure_that_was_not_logged_is_answered_with_those_that_were(tmp_path):
    folder = save(tmp_path / "run", {1: 4.0})
    with pytest.raises(ToolkitError, match=r"logged 'bleu' .* Logged: train/loss, valid/loss"):
        curve(PlotConfig(what=["curve", folder], metric="bleu"))


def test_without_matplotlib_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    folder = save(tmp_path / "run", {1: 4.0})
    with pytest.raises(ToolkitError, match=r"needs matplotlib.*pip install 'toolkit-seq\[plot\]'"):
        curve(PlotConfig(what=["curve", folder]))

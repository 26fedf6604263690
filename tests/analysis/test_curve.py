import json
import sys
from pathlib import Path

import pytest

from toolkit.analysis.curve import (
    Curve,
    band_edges,
    compute_curve,
    draw_curve,
    plot_curves,
    smooth,
)
from toolkit.analysis.plot_style import new_plot
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import CurveConfig
from toolkit.metrics.seeds import summarize
from toolkit.reporting.runs import LoggedRun


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
    """The SVG text of a plot of runs with these names."""

    def draw(names, **options):
        folders = [save(tmp_path / n, {1: 4.0, 2: 3.0 + i}) for i, n in enumerate(names)]
        output = tmp_path / "curve.svg"
        plot_curves(CurveConfig(runs=folders, output=str(output), **options))
        return output.read_text()

    return draw


def test_plot_curves_draws_metrics_side_by_side_with_one_legend(drawn):
    text = drawn("ab", metric=["loss", "accuracy"])
    assert "<!-- validation loss (nats) -->" in text and "<!-- validation accuracy (%) -->" in text
    assert text.count("<!-- a -->") == 1


def test_plot_curves_draws_train_and_valid_of_a_single_configuration(drawn):
    text = drawn("a", smoothing=0.5, log_scale=True, log_updates=True, title="Both")
    assert "<!-- training -->" in text and "<!-- validation -->" in text and "<!-- Both -->" in text


def test_plot_curves_draws_a_single_validation_as_a_point(tmp_path):
    output = tmp_path / "curve.svg"
    runs = [save(tmp_path / "run", {1: 4.0})]
    plot_curves(CurveConfig(runs=runs, output=str(output), metric=["accuracy"]))
    assert "<!-- validation -->" in output.read_text()


def test_plot_curves_omits_a_single_validation_if_training_has_a_curve(tmp_path):
    folder, output = save(tmp_path / "run", {1: 4.0, 2: 3.0}), tmp_path / "curve.svg"
    log = tmp_path / "run" / "metrics.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:3]))
    plot_curves(CurveConfig(runs=[folder], output=str(output)))
    assert "<!-- training loss (nats) -->" in output.read_text()


@pytest.mark.parametrize(("subset", "lines"), [("train", 2), ("valid", 1)])
def test_plot_curves_smooths_only_training_and_keeps_the_raw_line(subset, lines):
    ax = new_plot(4.0, 3.0).subplots()
    found = Curve([1, 2], [summarize([4.0]), summarize([2.0])], 1)
    c = CurveConfig(runs=["run"], output="x.svg", smoothing=0.5)
    draw_curve(ax, found._replace(subset=subset), c)
    assert len(ax.get_lines()) == lines
    assert (ax.get_lines()[-1].get_ydata()[-1] == 2.0) == (subset == "valid")


def test_plot_curves_writes_json_lines(tmp_path, capsys):
    folder = save(tmp_path / "run", {1: 4.0, 2: 3.0})
    output = str(tmp_path / "x.png")
    plot_curves(CurveConfig(runs=[folder], output=output, json="-", subset=["valid"]))
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert (
        record["metric"] == "loss"
        and record["mean"] == [3.0, 2.0]
        and captured.err == f"{output}\n"
    )


def test_plot_curves_draws_fractions_in_percent():
    ax = new_plot(4.0, 3.0).subplots()
    found = Curve([1, 2], [summarize([0.5]), summarize([0.25, 0.75])], 2)
    draw_curve(ax, found._replace(subset="valid"), CurveConfig(runs=["run"]), factor=100.0)
    assert list(ax.get_lines()[0].get_ydata()) == [50.0, 50.0]


def test_plot_curves_shows_the_given_labels(drawn):
    text = drawn("ab", labels=["a=no positions", "loss=error (bits)"])
    assert "<!-- no positions -->" in text and "<!-- error (bits) -->" in text
    assert "<!-- b -->" in text and "<!-- a -->" not in text


def test_plot_curves_lists_the_names_for_an_unknown_label(drawn):
    with pytest.raises(ToolkitError, match=r"'c' is none. Names: a; b; loss\."):
        drawn("ab", labels=["c=x"])


def test_plot_curves_lists_logged_metrics_for_an_unknown_one(drawn):
    with pytest.raises(ToolkitError, match=r"logged 'bleu' .* Logged: train/loss, valid/accuracy"):
        drawn("a", metric=["bleu"])


def test_plot_curves_rejects_seeds_without_common_updates(tmp_path):
    runs = [save(tmp_path / f"x,seed={u}", {u: 4.0}) for u in (1, 2)]
    with pytest.raises(ToolkitError, match=r"the seeds of x have logged .* at no common update"):
        plot_curves(CurveConfig(runs=runs, output=str(tmp_path / "x.png")))


def test_plot_without_matplotlib_says_what_to_install(drawn, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ToolkitError, match=r"requires matplotlib.*pip install 'toolkit-seq"):
        drawn("a")


CURVE = Curve([1, 2], [summarize([1.0, 3.0]), summarize([5.0, 5.0])], 2)


def logged_run(losses):
    train = [{"event": "train", "update": u, "loss": loss} for u, loss in losses.items()]
    valid = [{**r, "event": "valid", "subset": "valid", "loss": r["loss"] - 1} for r in train]
    return LoggedRun(Path("run"), [*train, {"event": "save", "update": 1}, *valid], {})


def test_compute_curve_summarizes_common_updates():
    found = compute_curve(
        [logged_run({1: 4.0, 2: 3.0, 3: 2.0}), logged_run({1: 6.0, 2: 5.0})], "valid", "loss"
    )
    assert (found.places, found.runs) == ([1, 2], 2)
    assert [(s.mean, s.deviation) for s in found.summaries] == [(4.0, 2.0**0.5), (3.0, 2.0**0.5)]


def test_compute_curve_skips_non_finite_values():
    assert compute_curve([logged_run({1: 4.0, 2: float("nan")})], "train", "loss").places == [1]


def test_compute_curve_by_words_interpolates_other_seeds_at_the_words_of_the_first():
    runs = [logged_run({1: 1.0, 2: 3.0}), logged_run({1: 2.0, 2: 4.0})]
    for run, shift in zip(runs, (0, 1), strict=True):
        for record in run.records:
            record["words"] = 10 * record["update"] - shift  # 10, 20; 9, 19
    found = compute_curve(runs, "train", "loss", "words")
    assert found.places == [10] and found.summaries[0].mean == pytest.approx((1.0 + 2.2) / 2)


def test_smooth_is_an_unbiased_exponential_moving_average():
    assert smooth([4.0, 1.0, 1.0], 0.5) == pytest.approx([4.0, 3 / 1.5, 2.5 / 1.75])
    assert smooth([4.0, 1.0], 0.0) == [4.0, 1.0]


@pytest.mark.parametrize(
    ("band", "expected"),
    [
        ("deviation", ([2 - 2**0.5, 5.0], [2 + 2**0.5, 5.0])),
        ("range", ([1.0, 5.0], [3.0, 5.0])),
        ("none", ([2.0, 5.0], [2.0, 5.0])),
    ],
)
def test_band_edges_follow_the_option(band, expected):
    assert band_edges(CURVE, band) == expected

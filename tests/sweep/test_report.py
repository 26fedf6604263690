import json

import pytest

from toolkit.analysis.curve import collect_lines
from toolkit.config.commands.train import SweepConfig
from toolkit.reporting.runs import group_runs
from toolkit.sweep import report
from toolkit.sweep.grid import GridPoint
from toolkit.sweep.outcomes import MetricSource, Outcome

LOSS_ON_DEV = MetricSource(subset="dev", metric="loss")


@pytest.fixture
def train(tmp_path):
    """Writes the log and the options of a run that was validated on dev and test."""

    def make(arch, seed, losses):
        point = GridPoint({"arch": arch}, seed)
        folder = tmp_path / point.name
        folder.mkdir()
        records = [
            record
            for update, loss in losses.items()
            for record in (
                {"event": "train", "update": update, "loss": loss + 1},
                {"event": "valid", "update": update, "subset": "dev", "loss": loss},
                {"event": "valid", "update": update, "subset": "test", "loss": loss + 2},
            )
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        config = {"arch": {"name": arch}, "training": {"seed": seed}}
        (folder / "options.yaml").write_text(json.dumps(config))
        metrics = {"dev": {"loss": losses[max(losses)]}}
        result = {"updates": max(losses), "seconds": 1.0, "valid": metrics, "best": None}
        return Outcome(point, result)

    return make


@pytest.fixture
def drawn(monkeypatch):
    """The lines of the plots that are drawn: name -> (split, {update: mean})."""
    lines = {}

    def draw_curves(runs, c):
        for line in collect_lines(group_runs(runs), *c.metric, c, runs):
            means = [summary.mean for summary in line.curve.summaries]
            curve = dict(zip(line.curve.updates, means, strict=True))
            lines[line.name] = (line.subset, curve)

    monkeypatch.setattr(report, "draw_curves", draw_curves)
    return lines


def test_sweep_draws_the_split_that_the_table_compares(train, drawn, tmp_path, capsys):
    outcomes = [train("a", 1, {10: 3.0, 20: 2.0}), train("b", 1, {10: 5.0, 20: 4.0})]
    report.report_sweep(outcomes, LOSS_ON_DEV, SweepConfig(), {}, tmp_path)
    assert drawn == {"a": ("dev", {10: 3.0, 20: 2.0}), "b": ("dev", {10: 5.0, 20: 4.0})}
    assert capsys.readouterr().out.startswith("loss on dev\n")


def test_sweep_draws_a_single_validation_instead_of_the_training(train, drawn, tmp_path):
    outcomes = [train("a", 1, {20: 2.0}), train("b", 1, {20: 4.0})]
    report.report_sweep(outcomes, LOSS_ON_DEV, SweepConfig(), {}, tmp_path)
    assert drawn == {"a": ("dev", {20: 2.0}), "b": ("dev", {20: 4.0})}


def test_sweep_draws_no_runs_that_the_table_leaves_out(train, drawn, tmp_path):
    train("a", 1, {10: 9.0})  # failed
    train("b", 1, {10: 8.0})
    outcomes = [train("a", seed, {10: 3.0, 20: 1.0 + seed}) for seed in (2, 3)]
    report.report_sweep(outcomes, LOSS_ON_DEV, SweepConfig(), {"arch=a": 1, "arch=b": 1}, tmp_path)
    assert [curve for _, curve in drawn.values()] == [{10: 3.0, 20: 3.5}]


def test_sweep_of_many_runs_names_the_command_that_draws_some(train, drawn, tmp_path, capsys):
    outcomes = [train("a", seed, {10: 3.0, 20: 2.0}) for seed in (1, 2)]
    report.draw_learning_curves(outcomes * 251, LOSS_ON_DEV, tmp_path)
    assert (
        "no learning curves of 502 runs: toolkit-plot curve draws some" in capsys.readouterr().out
    )
    assert not drawn


def test_sweep_says_why_it_draws_no_curves(train, drawn, tmp_path, capsys):
    accuracy = MetricSource(subset="dev", metric="accuracy")
    report.draw_learning_curves([train("a", 1, {10: 3.0})], accuracy, tmp_path)
    captured = capsys.readouterr()
    assert captured.err.startswith("no learning curves: no run has logged 'accuracy' of dev.")
    assert not captured.out

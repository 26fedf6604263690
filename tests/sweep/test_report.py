import json

import pytest

from tests.sweep.conftest import LOSS
from toolkit.analysis.curve import choose_subsets, collect_lines
from toolkit.config.commands.train import SweepConfig
from toolkit.reporting.runs import group_runs
from toolkit.sweep import report
from toolkit.sweep.ranking import (
    GridPoint,
    MetricSource,
    Outcome,
    group_by_configuration,
    rank_configurations,
)
from toolkit.sweep.report import best_of_each_variant, comparison_table

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
        groups = group_runs(runs)
        [subsets] = choose_subsets(groups, c, *c.metric)
        for line in collect_lines(groups, *c.metric, subsets, c, runs):
            means = [summary.mean for summary in line.summaries]
            curve = dict(zip(line.places, means, strict=True))
            lines[line.name] = (line.subset, curve)

    monkeypatch.setattr(report, "draw_curves", draw_curves)
    return lines


def test_sweep_draws_the_split_that_the_table_compares(train, drawn, tmp_path, capsys):
    outcomes = [train("a", 1, {10: 3.0, 20: 2.0}), train("b", 1, {10: 5.0, 20: 4.0})]
    report.report_sweep(outcomes, LOSS_ON_DEV, SweepConfig(), {}, tmp_path)
    assert drawn == {"a": ("dev", {10: 3.0, 20: 2.0}), "b": ("dev", {10: 5.0, 20: 4.0})}
    assert capsys.readouterr().out.startswith("loss on dev\n")


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


LOSSES = {"true": [3.0, 5.0, 6.0], "false": [2.0, 3.0, 3.0]}  # differences 1, 2, 3


def test_comparison_table_shows_the_difference_from_the_best_with_its_interval(ranking):
    found = comparison_table(ranking(LOSSES), LOSS, "mean", failed={})
    columns = "x mean deviation n difference low high p sign_p"
    assert list(found.columns) == columns.split()
    half = 4.302653 / 3**0.5
    row = found.values()["rows"][0]
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((2, 2 - half, 2 + half))
    assert (row["n"], row["sign_p"]) == (3, 0.25) and row["p"] == pytest.approx(0.07418, abs=1e-5)
    assert list(found.rows[1][4:]) == [None] * 5 and found.marked == [0, 1]
    assert found.caption == "loss on valid"
    assert found.note == (
        "marked: not distinguishable from the best, p > 0.05 in a paired t-test over equal seeds; "
        "low, high: 95% interval of the difference"
    )


def test_comparison_table_counts_pairs_where_seeds_are_missing(ranking):
    rows = {"a": {0: 1.0, 1: 2.0, 2: 2.5}, "b": {1: 4.0, 2: 3.0, 5: 9.0}}
    found = comparison_table(ranking(rows), LOSS, "mean", failed={"x=b": 2})
    assert [(row["n"], row["pairs"], row["failed"]) for row in found.values()["rows"]] == [
        (3, None, 0),
        (3, 2, 2),
    ]


def run(seed, speed, **costs):
    train = {"tokens_per_second": speed, "peak_memory_gib": 0.5}
    result = {"valid": {"valid": {"loss": 2.0}}, "train": train, **costs}
    return Outcome(GridPoint({"x": "a"}, seed), result)


TUNED_LOSSES = {("a", "1"): 4.0, ("a", "2"): 3.0, ("a", "3"): 5.0, ("b", "1"): 6.0, ("b", "2"): 7.0}


@pytest.fixture
def tried(outcome):
    runs = [
        outcome(seed, loss + seed * (0.1 if x == "a" else 0.2), x=x, lr=lr)
        for (x, lr), loss in TUNED_LOSSES.items()
        for seed in range(3)
    ]
    return rank_configurations(group_by_configuration(runs, LOSS), "loss", "mean")


def values(ranking):
    return [tuple(row.point.values.values()) for row in ranking.rows]


def test_the_best_value_is_chosen_for_each_variant(tried):
    chosen = best_of_each_variant(tried, ["lr"], "loss")
    assert values(chosen) == [("a", "2"), ("b", "1")] and chosen.best == 0
    assert values(best_of_each_variant(tried, ["lr", "x"], "loss")) == [("a", "2")]

import json
import math

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.sweep.comparison import COLUMNS, Outcome, comparison_table, load_result
from toolkit.sweep.grid import GridPoint

CONFIG = {
    "arch": {"name": "bert"},
    "training": {"seed": 1},
    "data": {"dirs": ["d"], "num_workers": 1},
    "checkpoint": {"save_dir": "a", "finetune_from": None},
    "logging": {"log_interval": 100},
}


def outcome(fixed, seed, loss):
    valid = {"valid": {"loss": loss, "accuracy": -loss}}
    return Outcome(GridPoint({"arch.fixed": fixed}, seed), {"valid": valid})


OUTCOMES = [
    outcome("true", 0, 3.0),
    outcome("true", 1, 5.0),
    outcome("false", 0, 2.0),
]


def test_comparison_table_marks_the_best_configuration():
    found = comparison_table(OUTCOMES, subset="valid", metric="loss", failed={})
    assert list(found.columns) == ["arch.fixed", *COLUMNS]
    first = ["true", 4.0, 2.0**0.5, pytest.approx(1.0), 4.0, 2, 3.0, 5.0]
    assert found.rows == [first, ["false", 2.0, None, None, 2.0, 1, 2.0, 2.0]]
    assert found.best == 1
    assert comparison_table(OUTCOMES[::-1], subset="valid", metric="loss", failed={}).best == 0


@pytest.mark.parametrize(("by", "best"), [("mean", 1), ("median", 0), ("best", 2)])
def test_comparison_table_ranks_by_mean_median_or_best(by, best):
    losses = {"a": (3.0, 3.0, 9.0), "b": (4.0, 4.0, 4.0), "c": (1.0, 8.0, 9.0)}
    seeds = [outcome(name, i, loss) for name in losses for i, loss in enumerate(losses[name])]
    assert (
        comparison_table(seeds, subset="valid", metric="loss", failed={}, rank_by=by).best == best
    )


def test_comparison_table_compares_best_validations():
    best = {"metric": "accuracy", "valid": {"valid": {"loss": 7.0}}}
    one = Outcome(GridPoint({}, 0), {"valid": {"valid": {"loss": 9.0}}, "best": best})
    found = comparison_table([one], subset="valid", metric="loss", failed={}, validation="best")
    assert found.rows[0][1] == 7.0 and found.caption == "loss on valid, best validation"
    with pytest.raises(ToolkitError, match=r"--sweep.validation best requires runs that store"):
        comparison_table(OUTCOMES, subset="valid", metric="loss", failed={}, validation="best")


def test_comparison_table_shows_nan_for_a_run_without_a_value():
    results = ({"valid": {"valid": {"loss": v}}, "best": None} for v in (9.0, 8.0))
    never = [Outcome(GridPoint({}, seed), result) for seed, result in enumerate(results)]
    found = comparison_table(never, subset="valid", metric="loss", failed={}, validation="best")
    assert math.isnan(found.rows[0][1])


@pytest.mark.parametrize("valid", [{}, {"valid": {"accuracy": 0.5}}])
def test_comparison_table_rejects_runs_without_the_metric(valid):
    never = Outcome(GridPoint({}, 0), {"valid": valid, "best": None})
    for at in ("last", "best"):
        with pytest.raises(ToolkitError, match="metric must be a metric of the validation on"):
            comparison_table([never], subset="valid", metric="loss", failed={}, validation=at)


def test_comparison_table_prefers_higher_accuracies():
    assert comparison_table(OUTCOMES, subset="valid", metric="accuracy", failed={}).best == 1


def test_comparison_table_never_marks_nan():
    nan = outcome("none", 0, float("nan"))
    assert comparison_table([nan, *OUTCOMES], subset="valid", metric="loss", failed={}).best == 2


def test_comparison_table_counts_failed_runs():
    found = comparison_table(
        OUTCOMES, subset="valid", metric="loss", failed={"arch.fixed=false": 2}
    )
    assert [row[-1] for row in found.rows] == [0, 2]


def test_comparison_table_lists_known_metrics_for_an_unknown_one():
    with pytest.raises(ToolkitError, match=r"but is 'bleu'. Known: loss, accuracy"):
        comparison_table(OUTCOMES, subset="valid", metric="bleu", failed={})


def write(folder, **changes):
    (folder / "result.json").write_text(json.dumps({"signal": None, "config": CONFIG, **changes}))


def test_load_result_requires_the_same_configuration(tmp_path):
    write(tmp_path)
    elsewhere = {**CONFIG, "checkpoint": {**CONFIG["checkpoint"], "save_dir": "b"}}
    assert load_result(tmp_path, CONFIG) and load_result(tmp_path, elsewhere)
    assert load_result(tmp_path, {**CONFIG, "training": {"seed": 2}}) is None
    tuned = {**CONFIG, "checkpoint": {"save_dir": "a", "finetune_from": "x"}}
    assert load_result(tmp_path, tuned) is None


def test_load_result_ignores_a_signaled_run(tmp_path):
    assert load_result(tmp_path, CONFIG) is None
    write(tmp_path, signal=15)
    assert load_result(tmp_path, CONFIG) is None
    (tmp_path / "result.json").write_text("{half")
    assert load_result(tmp_path, CONFIG) is None

import json
import math
import random

import numpy as np
import pytest

from tests.sweep.conftest import LOSS
from toolkit.common.errors import ToolkitError
from toolkit.metrics.seeds import compare_pairs
from toolkit.sweep.ranking import (
    GridPoint,
    MetricSource,
    Outcome,
    group_by_configuration,
    load_result,
    rank_configurations,
)
from toolkit.sweep.report import comparison_table

SHARED = [10.0, 30.0, 20.0, 60.0, 50.0]


def losses(*offsets):
    return [shared + offset for shared, offset in zip(SHARED, offsets, strict=True)]


CLEAR = {
    "a": losses(0.0, 0.0, 0.0, 0.0, 0.0),
    "b": losses(1.0, 1.1, 0.9, 1.0, 1.05),
    "c": losses(0.1, -0.1, 0.2, -0.1, 0.0),
}


def among_the_best(ranking):
    table = comparison_table(ranking, LOSS, "mean", {})
    return {table.rows[index][0] for index in table.marked}


def test_rows_are_distinguished_by_pairs_that_their_own_spread_would_hide(ranking):
    found = ranking(CLEAR)
    assert (found.best, found.tests) == (0, 3) and among_the_best(found) == {"a", "c"}
    assert found.rows[1].summary.standard_error > 5


def test_p_is_corrected_for_all_pairs_of_rows(ranking):
    found, raw = ranking(CLEAR).rows[1], compare_pairs(CLEAR["b"], CLEAR["a"])
    assert found.p == pytest.approx(3 * raw.p) and found.sign_p == 3 * 0.0625
    assert found.difference == raw


def test_ranking_ignores_the_order_of_rows_and_seeds(outcome):
    runs = [outcome(s, loss, x=x) for x in CLEAR for s, loss in enumerate(CLEAR[x])]

    def rank(outcomes):
        found = rank_configurations(group_by_configuration(outcomes, LOSS), "loss", "mean")
        return {row.point.configuration: (row.value, row.p) for row in found.rows}

    shuffled = random.Random(1).sample(runs, len(runs))
    assert rank(shuffled) == rank(runs)


@pytest.mark.parametrize(("by", "best"), [("mean", 1), ("median", 0), ("best", 2)])
def test_the_best_row_is_that_of_the_best_mean_median_or_seed(ranking, by, best):
    rows = {"a": (3.0, 3.0, 9.0), "b": (4.0, 4.0, 4.0), "c": (1.0, 8.0, 9.0)}
    assert ranking(rows, rank_by=by).best == best


def test_a_row_with_nan_is_never_among_the_best(ranking):
    found = ranking({"nan": [math.nan, 1.0], "a": [3.0, 3.5], "b": [2.0, 4.0]})
    assert (found.best, found.tests) == (2, 1) and among_the_best(found) == {"a", "b"}
    never = ranking({"a": [math.nan], "b": [math.nan]})
    assert never.best is None and not among_the_best(never)


def test_one_seed_cannot_tell_rows_apart(ranking):
    found = ranking({"a": [3.0], "b": [2.0]})
    assert found.tests == 0 and among_the_best(found) == {"a", "b"}
    assert found.rows[0].difference.mean == 1.0 and found.rows[0].p is None


@pytest.mark.slow
def test_equal_rows_are_rarely_distinguished_however_many(ranking):
    noise, false = np.random.default_rng(0), 0
    for _ in range(30):
        shared = noise.normal(size=5)
        rows = {str(i): (shared + noise.normal(size=5)).tolist() for i in range(6)}
        false += len(among_the_best(ranking(rows))) < 6
    assert false <= 4  # 5% of 30 and two standard deviations; 33% if p were not corrected


BEST_LOSS = MetricSource(subset="valid", metric="loss", validation="best")
CONFIG = {
    "arch": {"name": "bert"},
    "training": {"seed": 1},
    "data": {"dirs": ["d"], "num_workers": 1},
    "checkpoint": {"save_dir": "a", "finetune_from": None},
    "logging": {"log_interval": 100},
}


def run(**result):
    return Outcome(GridPoint({}, 0), {"valid": {"valid": {"loss": 9.0}}, **result})


def value(outcome, source):
    [configuration] = group_by_configuration([outcome], source)
    return configuration.by_seed[0]


def test_a_metric_is_read_from_the_last_or_best_validation():
    one = run(best={"metric": "accuracy", "valid": {"valid": {"loss": 7.0}}})
    assert (value(one, LOSS), value(one, BEST_LOSS)) == (9.0, 7.0)
    assert (str(LOSS), str(BEST_LOSS)) == ("loss on valid", "loss on valid, best validation")
    assert math.isnan(value(run(best=None), BEST_LOSS))


def test_a_metric_that_no_run_has_is_rejected_and_one_that_some_have_is_nan_for_others():
    without = run(valid={"valid": {"accuracy": 0.5}}, best=None)
    with pytest.raises(ToolkitError, match="metric must be a metric of the validation on"):
        group_by_configuration([without], LOSS)
    other = run(best=None)._replace(point=GridPoint({}, 1))
    [found] = group_by_configuration([without, other], LOSS)
    assert math.isnan(found.by_seed[0]) and found.by_seed[1] == 9.0


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

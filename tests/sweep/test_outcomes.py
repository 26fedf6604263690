import json
import math

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.sweep.grid import GridPoint
from toolkit.sweep.outcomes import MetricSource, Outcome, load_result, read_metric

LOSS = MetricSource(subset="valid", metric="loss")
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


def test_a_metric_is_read_from_the_last_or_best_validation():
    one = run(best={"metric": "accuracy", "valid": {"valid": {"loss": 7.0}}})
    assert (read_metric(one, LOSS), read_metric(one, BEST_LOSS)) == (9.0, 7.0)
    assert (str(LOSS), str(BEST_LOSS)) == ("loss on valid", "loss on valid, best validation")


def test_a_metric_is_nan_if_no_validation_was_best():
    assert math.isnan(read_metric(run(best=None), BEST_LOSS))


@pytest.mark.parametrize("valid", [{}, {"valid": {"accuracy": 0.5}}])
@pytest.mark.parametrize("source", [LOSS, BEST_LOSS])
def test_an_unknown_metric_is_rejected(valid, source):
    with pytest.raises(ToolkitError, match="metric must be a metric of the validation on"):
        read_metric(run(valid=valid, best=None), source)


def test_known_metrics_are_listed_for_an_unknown_one():
    with pytest.raises(ToolkitError, match=r"but is 'bleu'. Known: loss"):
        read_metric(run(), MetricSource(subset="valid", metric="bleu"))


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

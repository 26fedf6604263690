import math

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.optim.schedules import Plateau, PlateauConfig
from toolkit.training.callbacks.validation import Validation, is_improvement


class Recorder:
    def __init__(self):
        self.records = []

    def write(self, event, values):
        self.records.append((event, dict(values)))

    def close(self):
        pass


@pytest.mark.parametrize(
    ("metric", "value", "best", "better"),
    [
        ("loss", 1.0, None, True),
        ("loss", 1.0, 2.0, True),
        ("mlm_loss", 2.0, 2.0, False),
        ("ppl", 3.0, 2.0, False),
        ("word_ppl", 3.0, 2.0, False),
        ("nll", 1.0, 2.0, True),
        ("accuracy", 3.0, 2.0, True),
        ("accuracy", 1.0, 2.0, False),
        ("loss", math.nan, None, False),
    ],
)
def test_lower_losses_and_higher_other_metrics_are_improvements(metric, value, best, better):
    assert is_improvement(metric, value, best) == better


def validation(trainer, values, **options):
    values = iter(values)
    subsets = {"valid": lambda: {"loss": next(values)}, "test": lambda: {"loss": 0.0}}
    return Validation(trainer, subsets, Recorder(), **options)


def test_validation_reports_every_subset_and_ranks_by_the_first(make_trainer):
    watch = validation(make_trainer(), [2.0, 3.0])
    for update in (1, 2):
        watch.validate(update, 1)
    assert [(e, v["subset"], v["update"]) for e, v in watch.sink.records] == [
        ("valid", "valid", 1), ("valid", "test", 1), ("valid", "valid", 2), ("valid", "test", 2)
    ]  # fmt: skip
    valid = {"valid": {"loss": 2.0}, "test": {"loss": 0.0}}
    best = {"metric": "loss", "value": 2.0, "update": 1, "valid": valid}
    assert watch.best == best and watch.bad_validations == 1


def test_validation_runs_once_per_update(make_trainer):
    watch = validation(make_trainer(), [2.0, 1.0])
    watch.validate(5, 1)
    watch.validate(5, 1)
    assert watch.best["value"] == 2.0


def test_patience_counts_validations_without_improvement(make_trainer):
    trainer = make_trainer()
    watch = validation(trainer, [2.0, 2.5, 1.0, 1.5, 1.2], patience=2)
    ended = []
    for update in range(1, 6):
        watch.validate(update, 1)
        ended.append(trainer.finished)
    assert ended == [False, False, False, False, True]


def test_validation_starts_over_with_another_metric_or_split(make_trainer):
    first = validation(make_trainer(), [2.0])
    first.validate(1, 1)
    same = validation(make_trainer(), [])
    same.restore(first.state())
    assert same.best == first.best
    for change in ({"metric": "accuracy"}, {"examples": "of another split"}):
        other = validation(make_trainer(), [], **change)
        other.restore(first.state())
        assert other.best is None and other.bad_validations == 0 and other.validated_at == -1


def test_resumed_run_without_patience_left_takes_no_update(make_trainer):
    first = validation(make_trainer(), [2.0, 2.5, 2.5], patience=2)
    for update in (1, 2, 3):
        first.validate(update, 1)
    for patience, ended in ((2, True), (3, False), (0, False)):
        again = validation(make_trainer(), [], patience=patience)
        again.restore(first.state())
        assert again.trainer.finished == ended


def plateaued(make_trainer, values, **options):
    trainer = make_trainer(schedule=Plateau(PlateauConfig(factor=0.5), 9))
    return trainer.schedule, validation(trainer, values, **options)


def test_metric_schedule_receives_every_validation(make_trainer):
    schedule, watch = plateaued(make_trainer, [2.0, 2.5, 1.0])
    for update in (1, 2, 3):
        watch.validate(update, 1)
    assert schedule(4) == 0.5 and schedule.best == 1.0


def test_metric_schedule_is_restored(make_trainer):
    _, first = plateaued(make_trainer, [2.0, 2.5])
    for update in (1, 2):
        first.validate(update, 1)
    schedule, again = plateaued(make_trainer, [2.5])
    again.restore(first.state())
    assert schedule(3) == 0.5
    again.validate(3, 1)
    assert schedule(4) == 0.25


def test_metric_schedule_starts_over_with_another_metric_but_keeps_its_rate(make_trainer):
    _, first = plateaued(make_trainer, [], metric="accuracy")
    for update, accuracy in enumerate((0.9, 0.8)):
        first.update_best({"accuracy": accuracy}, update)
    schedule, again = plateaued(make_trainer, [2.0, 1.5])
    again.restore(first.state())
    for update in (2, 3):
        again.validate(update, 1)
    assert schedule(4) == 0.5 and schedule.best == 1.5


def test_metric_schedule_requires_validation(make_trainer):
    trainer = make_trainer(schedule=Plateau(PlateauConfig(), 9))
    with pytest.raises(ToolkitError, match=r"plateau requires validation, but .*empty"):
        Validation(trainer, {}, None)

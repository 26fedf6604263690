import math
from dataclasses import replace

import pytest
import torch

from toolkit import load_checkpoint
from toolkit.checkpoints.load import AVERAGE, MODEL
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.distributed import World
from toolkit.optim.schedules import Plateau, PlateauConfig
from toolkit.training.callbacks.validation import (
    ExponentialMovingAverage,
    Validation,
    is_improvement,
)
from toolkit.training.run import TrainingRun, run


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


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def moved(layer, average, updates):
    """Random walks of the weights, and their values after each update."""
    seen = [[p.detach().double().clone() for p in layer.parameters()]]
    for update in range(1, updates + 1):
        for p in layer.parameters():
            p.data += torch.randn(p.shape)
        average.update(update)
        seen.append([p.detach().double().clone() for p in layer.parameters()])
    return seen


@pytest.mark.parametrize("warmup", [True, False])
def test_average_follows_its_formula(layer, warmup):
    average = ExponentialMovingAverage(layer, 0.8, warmup=warmup)
    first, *rest = moved(layer, average, 40)
    wanted = first
    for n, weights in enumerate(rest, 1):
        d = min(0.8, (1 + n) / (10 + n)) if warmup else 0.8
        wanted = [d * a + (1 - d) * w for a, w in zip(wanted, weights, strict=True)]
    for found, right in zip(average.state_dict().values(), wanted, strict=True):
        torch.testing.assert_close(found, right.float(), atol=1e-6, rtol=0)


def test_swapped_in_exchanges_weights_and_average_for_the_block(layer):
    average = ExponentialMovingAverage(layer, 0.5)
    moved(layer, average, 3)
    weights, averages = [p.detach().clone() for p in layer.parameters()], average.state_dict()
    with pytest.raises(KeyboardInterrupt), average.swapped_in():
        assert torch.equal(layer.weight, averages["weight"])
        assert not torch.equal(layer.weight, weights[0])
        raise KeyboardInterrupt
    assert torch.equal(layer.weight, weights[0]) and torch.equal(layer.bias, weights[1])
    assert torch.equal(average.averages["bias"], averages["bias"])


def test_frozen_weights_are_kept_without_averaging(layer):
    layer.bias.requires_grad_(False)
    average = ExponentialMovingAverage(layer, 0.5)
    assert list(average.averages) == ["weight"]
    assert torch.equal(average.state_dict()["bias"], layer.bias)


def figures(data, path):
    """The validation loss of each kind of weights of a checkpoint."""
    options = {"dirs": [str(data)], "path": [str(path)], "precision": "fp32", "batch_size": 8}
    return {
        weights: evaluate_checkpoints(ValidateConfig(weights=weights, **options))[str(path)][
            "valid"
        ]["loss"]
        for weights in ("auto", "average", "trained")
    }


@pytest.mark.slow
def test_average_is_validated_saved_and_loaded(config, data, tmp_path):
    result = run(config(ema_decay=0.9, lr=0.05, max_update=6))
    last = tmp_path / "run" / "checkpoint_last"
    averaged, trained = read_tensors(last / AVERAGE), read_tensors(last / MODEL)
    assert averaged.keys() == trained.keys()
    name = "encoder.embeddings.words.weight"
    assert not torch.equal(averaged[name], trained[name])
    assert torch.equal(load_checkpoint(last).encoder.token_embedding.weight, averaged[name])
    for weights, tensors in (("average", averaged), ("trained", trained)):
        learner = load_checkpoint(last, weights=weights)
        assert torch.equal(learner.encoder.token_embedding.weight, tensors[name])
    for weights, losses in figures(data, last).items():
        assert (losses == result.valid["valid"]["loss"]) == (weights != "trained"), weights
    raw = run(config(save_dir=str(tmp_path / "raw"), lr=0.05, max_update=6))
    assert result.train["loss"] == raw.train["loss"]
    assert result.valid["valid"]["loss"] != raw.valid["valid"]["loss"]


def test_average_enabled_at_a_resume_starts_at_the_weights(config, tmp_path):
    run(config(max_update=2))
    again = TrainingRun(config(max_update=4, ema_decay=0.5), World())
    saved = read_tensors(tmp_path / "run" / "checkpoint_last" / MODEL)
    found = again.validation.ema.state_dict()
    again.close()
    assert all(torch.equal(found[name], saved[name]) for name in saved)


def test_finetune_from_loads_the_average(config, tmp_path):
    run(config(ema_decay=0.9, lr=0.05, max_update=3))
    start = TrainingRun(
        config(finetune_from=str(tmp_path / "run"), save_dir=str(tmp_path / "b")), World()
    )
    start.close()
    averaged = read_tensors(tmp_path / "run" / "checkpoint_best" / AVERAGE)
    words = start.trainer.learner.encoder.token_embedding.weight
    assert torch.equal(words, averaged["encoder.embeddings.words.weight"])


@pytest.mark.slow
def test_average_of_two_sharded_ranks_is_that_of_one_process(config, tmp_path, ranks):
    def train(world):
        options = {"update_freq": 2 // world.size, "sharding": "full" if world.size > 1 else "none"}
        folder = tmp_path / f"{world.size}"
        for updates in (2, 4):
            c = config(save_dir=str(folder), batch_size=4, lr=0.05, ema_decay=0.9, **options)
            training = TrainingRun(
                replace(c, training=replace(c.training, max_update=updates)), world
            )
            training.fit()
            training.close()
        return float(training.validation.best["value"])

    alone = train(World())
    assert ranks(train) == pytest.approx([alone] * 2, rel=1e-6)
    averages = [read_tensors(tmp_path / n / "checkpoint_last" / AVERAGE) for n in "12"]
    for name, tensor in averages[0].items():
        torch.testing.assert_close(tensor, averages[1][name], atol=1e-6, rtol=1e-5)

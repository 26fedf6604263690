"""Scenario 12: NaN, inf or 1e9 as the loss of one rank."""

from __future__ import annotations

import math

import pytest
import torch

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.distributed.data_parallel import to_local
from toolkit.training.run import TrainingRun


def poisoned(config, world, value, updates, **options):
    """A run whose second rank adds `value` to its loss in some updates; weights after each."""
    training = TrainingRun(config(**options), world)
    trainer, weights = training.trainer, [torch.zeros(0)]
    sums = trainer.criterion.forward

    def spoilt(predictions):
        wrong = world.rank == 1 and trainer.progress.update + 1 in updates
        return {o: total + (value if wrong else 0.0) for o, total in sums(predictions).items()}

    def advance(step):
        weights.append(torch.cat([to_local(p).detach().flatten() for p in trainer.parameters]))

    trainer.criterion.forward, training.advance_progress_bar = spoilt, advance
    return training, weights


def skipped_updates(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [r for r in map(json_files.loads, lines) if r["event"] == "skipped_update"]


@pytest.mark.parametrize("value", [math.nan, pytest.param(-math.inf, marks=pytest.mark.slow)])
def test_non_finite_loss_on_one_rank_changes_no_weights(config, ranks, tmp_path, value):
    def train(world):
        training, weights = poisoned(config, world, value, {3}, max_update=5, batch_size=4)
        result = training.fit()
        training.close()
        unchanged = torch.equal(weights[3], weights[2]), torch.equal(weights[4], weights[3])
        return unchanged, result.train["skipped_updates"], weights[5].tolist()

    first, second = ranks(train)
    assert first == second and first[:2] == ((True, False), 1.0)
    (event,) = skipped_updates(tmp_path / "run")
    assert (event["update"], event["reason"], event["micro_batches"]) == (3, "loss", "5")
    assert len(event["examples"].split()) == 4
    text = "skipped: its loss is not finite on rank 1; micro-batches 5, ex"
    assert event["text"].startswith(text)


@pytest.mark.slow
def test_ten_non_finite_updates_stop_both_ranks(config, ranks):
    def train(world):
        training, _ = poisoned(config, world, float("nan"), range(1, 99), no_save=True, max_epoch=9)
        with pytest.raises(ToolkitError, match=r"not in 10 updates in a row up to update 10") as e:
            training.fit()
        training.close()
        return training.trainer.progress.update, str(e.value)

    first, second = ranks(train)
    assert first == second and first[0] == 10
    assert "that is not finite: the output of the criterion (CrossEntropy) on rank 1" in first[1]


@pytest.mark.slow
def test_spike_on_one_rank_is_skipped_on_all(config, ranks, tmp_path):
    def train(world):
        options = {"skip_spikes": True, "max_update": 72, "max_epoch": 99, "batch_size": 4}
        training, weights = poisoned(config, world, 1e9, {70}, **options)
        training.fit()
        training.close()
        return torch.equal(weights[70], weights[69]), torch.equal(weights[71], weights[70])

    assert ranks(train) == [(True, False)] * 2
    event = [(r["update"], r["reason"]) for r in skipped_updates(tmp_path / "run")]
    assert event == [(70, "spike")]

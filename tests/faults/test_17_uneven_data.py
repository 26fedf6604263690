"""Fault 17: data that ranks cannot share evenly; no rank waits, and nothing is counted twice."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.fairseq_files import write_folder
from toolkit.distributed import World
from toolkit.training.run import TrainingRun

WORDS = ["the", "cat", "sat", "on", "a", "mat"]


@pytest.fixture
def folder(tmp_path):
    """11 examples to train on, 11 to validate on, and a test split of a single one."""
    draw = np.random.default_rng(0)

    def lines(count):
        return [" ".join(draw.choice(WORDS, size=draw.integers(2, 7))) for _ in range(count)]

    splits = {"train": lines(22), "valid": lines(22), "test": lines(2)}
    return str(write_folder(tmp_path / "data", WORDS, splits))


def trained(config, world, folder, **options):
    """The metrics and weights of a run, as plain data."""
    options = {"data__dirs": [folder], "valid_subset": "valid,test", "max_epoch": 1, **options}
    run = TrainingRun(config(no_save=True, **options), world)
    result = run.fit()
    weights = np.concatenate([p.detach().flatten().numpy() for p in run.trainer.parameters])
    return result.updates, result.valid, weights.tolist()


UPDATES = {1: 6, 4: 2, 16: 1}
"""Batch sizes with 11 batches per epoch, 3, and a single one, so that a rank has none."""


@pytest.mark.slow
def test_uneven_examples_on_two_ranks_equal_one_process(config, ranks, folder):
    def train(world, **more):
        options = {"lr": 0.01, **more}
        return [trained(config, world, folder, batch_size=size, **options) for size in UPDATES]

    alone, pair = train(World(), update_freq=2), ranks(train)
    for found in pair:
        for (count, figures, weights), want, updates in zip(
            found, alone, UPDATES.values(), strict=True
        ):
            assert count == want[0] == updates
            assert [figures[split]["examples"] for split in ("valid", "test")] == [11, 1]
            assert figures["valid"]["loss"] == pytest.approx(want[1]["valid"]["loss"], abs=1e-6)
            assert np.abs(np.array(weights) - np.array(want[2])).max() < 1e-6


@pytest.mark.slow
def test_uneven_shards_end_after_the_same_updates_on_both_ranks(config, ranks, folder, tmp_path):
    small = write_folder(tmp_path / "small", WORDS, {"train": ["the cat sat", "on a mat"]})
    found = ranks(
        lambda world: trained(config, world, f"{folder}:{small}", max_epoch=4, batch_size=3)
    )
    assert found[0][0] == 2 + 1 + 2 + 1 and found[0] == found[1]

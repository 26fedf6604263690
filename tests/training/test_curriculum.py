"""Curricula: what the batches of the first epochs are sorted by."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from toolkit import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.sections import ComponentConfig, DataConfig
from toolkit.data.storage.data_folder import Corpora, DataFolder
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.training.data import TrainingData


def load(config, data, rank=0, ranks=1, **options):
    c = config(**options)
    world = World(rank=rank, size=ranks)
    return TrainingData(Corpora.open(str(data)), c.task, c.data, world=world, seed=1)


def epoch_ids(training, epoch):
    return [training.example_ids(epoch, i).tolist() for i in range(training.micro_batches(epoch))]


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("mlm", {"tokens_per_sample": 16}),
        ("mlm", {"tokens_per_sample": 16, "sample_mode": "blocks"}),
        ("mlm", {"tokens_per_sample": 16, "pair_mode": "electra"}),
        ("language_modeling", {"tokens_per_sample": 9, "sample_mode": "items"}),
        ("denoising", {"tokens_per_sample": 12}),
    ],
)
def test_rarity_equals_a_loop_over_the_tokens(data, task, options):
    folder, config = DataFolder.open(data), dataclasses.replace(TASKS[task].config, **options)
    examples = TASKS[task].factory.examples(config, SplitSource(folder, "train", 1, True))
    counts = Counter(folder.split("train").column("tokens").read_all().tolist())
    tokens = examples.text[0].read_tokens(np.arange(len(examples)))
    expected = [
        -sum(np.log(counts[it] / counts.total()) for it in row if it in counts)
        for row in tokens.tolist()
    ]
    np.testing.assert_allclose(examples.measure_rarity(), expected, rtol=1e-12)
    assert np.std(expected) > 1


def test_first_epochs_follow_the_file_and_all_ranks_the_same_plan(config, data, tmp_path):
    scores = np.random.default_rng(0).permutation(38) / 2
    (tmp_path / "scores").write_text("\n".join(map(str, scores)) + "\n")
    how = {
        "data.curriculum": str(tmp_path / "scores"),
        "data.curriculum_epochs": 2,
        "batch_size": 4,
    }
    sorts = load(config, data, **how)
    for epoch in (1, 2):
        means = [scores[ids].mean() for ids in epoch_ids(sorts, epoch)]
        assert means == sorted(means)
        assert sorted(chain(*epoch_ids(sorts, epoch))) == list(range(38))
    plain = load(config, data, batch_size=4)
    assert epoch_ids(sorts, 3) == epoch_ids(plain, 3)
    assert sorts.fingerprints["order"] != plain.fingerprints["order"]
    assert sorts.fingerprints["examples"] == plain.fingerprints["examples"]
    other = load(config, data, rank=1, ranks=2, **how)
    assert epoch_ids(other, 1) == epoch_ids(sorts, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"must be length, rarity or a file .* is .*scores, and there is no such file"),
        ("1\n-2e3\nx\n", r"scores:3: expected a number, found 'x'"),
        ("1\nnan\n2\n", r"scores:2: expected a number, found 'nan'"),
        ("1\n2\n", r"number for each of the 38 training examples, but has 2"),
    ],
)
def test_bad_scores_are_one_line(config, data, tmp_path, text, message):
    if text is not None:
        (tmp_path / "scores").write_text(text)
    with pytest.raises(ToolkitError, match=message):
        load(config, data, **{"data.curriculum": str(tmp_path / "scores")})


def test_combinations_that_cannot_be_sorted_say_why(parallel):
    with pytest.raises(ToolkitError, match=r"cannot be combined with data\.fill_batches"):
        DataConfig(curriculum="length", fill_batches=True, max_tokens=512)
    task, c = ComponentConfig("translation", TASKS["translation"].config), {"curriculum": "rarity"}
    with pytest.raises(ToolkitError, match=r"rarity requires a task on plain text"):
        TrainingData(Corpora.open(str(parallel)), task, DataConfig(**c), world=World(), seed=1)

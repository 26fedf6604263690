"""Runs whose batches all have one shape: the same updates on any number of ranks, and one graph."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.operation_recorder import OperationRecorder
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.data_folder import Corpora
from toolkit.distributed import World
from toolkit.training import cuda_graphs
from toolkit.training.cuda_graphs import record_updates
from toolkit.training.data import TrainingData
from toolkit.training.run import TrainingRun

FILLED = {"fill_batches": True, "max_tokens": 96, "batch_size": None}


def fit(config, recorder=None):
    training = TrainingRun(config, World())
    if recorder:
        record_updates(training.trainer, recorder, print, filled=True)
    try:
        training.fit()
    finally:
        training.close()


def test_all_updates_are_replays_of_one_graph_and_equal_those_without(
    config, end_of, tmp_path, monkeypatch
):
    monkeypatch.setattr(cuda_graphs, "MAX_TOKENS", 12)  # beyond which other batches have none
    options = {**FILLED, "lr": 2**-7, "lr_scheduler": "fixed", "max_update": 12, "max_epoch": None}
    recorder = OperationRecorder()
    fit(config(**options, save_dir=str(tmp_path / "graphs")), recorder)
    fit(config(**options, save_dir=str(tmp_path / "plain")))
    assert recorder.captures == 2  # of a pass and of an update
    assert end_of(tmp_path / "graphs") == end_of(tmp_path / "plain")


def test_batches_are_the_same_over_several_ranks(config):
    def batches(rank, ranks):
        c = config(**FILLED)
        world, corpora = World(rank=rank, size=ranks), Corpora.of_run(c.data)
        loader = TrainingData(corpora, c.task, c.data, world=world, seed=1).loader_for(1)
        return [it for update in loader.updates(1) for it in update]

    one, pair = batches(0, 1), [batches(rank, 2) for rank in (0, 1)]
    both = [it for two in zip(*pair, strict=True) for it in two][: len(one)]
    for wanted, found in zip(one, both, strict=True):
        assert torch.equal(wanted.inputs.tokens, found.inputs.tokens)
        assert wanted.weights == found.weights


def test_batches_have_places_for_the_largest_rate_of_a_schedule(config):
    configs = (config(**FILLED, mask_rate=rate) for rate in ("0.6:0.1", 0.6))
    loaders = (TrainingRun(c, World()).train.loader_for(1) for c in configs)
    falling, constant = (next(iter(loader.updates(1)))[0] for loader in loaders)
    assert len(falling.targets) == len(constant.targets)


def test_parts_of_a_batch_that_does_not_fit_into_memory_have_no_filler(config):
    loader = TrainingRun(config(**FILLED), World()).train.loader_for(1)
    parts = loader.split_micro_batch(1, 0, 2)
    assert sum(len(it.inputs.tokens) for it in parts) == len(loader.example_ids(1, 0))


@pytest.mark.parametrize(
    "options",
    [
        {"task": "rtd", "arch": "convbert_tiny"},
        {"max_tokens": None, "batch_size": 8},
        {"batch_size": 8},
    ],
)
def test_runs_that_cannot_fill_batches_end_before_the_first_update(config, options):
    with pytest.raises(ToolkitError, match="fill_batches"):
        TrainingRun(config(**{**FILLED, **options}), World())

from __future__ import annotations

import pytest
import torch

from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.training.cuda_graphs import (
    GraphedAccumulator,
    choose_row_multiple,
    reason_against_graphs,
)
from toolkit.training.run import TrainingRun

GPU = torch.device("cuda", 0)
REASONS = {
    "the device is cpu": (World(), {}),
    "several ranks exchange gradients": (World(size=2, device=GPU), {}),
    "activation checkpointing sets the generator's state during the backward pass": (
        World(device=GPU),
        {"checkpoint_activations": True},
    ),
    "": (World(device=GPU), {"compile": True}),
}


@pytest.mark.parametrize("reason", REASONS)
def test_runs_that_cannot_have_graphs_have_a_reason(reason):
    world, options = REASONS[reason]
    assert reason_against_graphs(TrainingConfig(max_update=1, **options), world) == reason


def test_batches_for_graphs_have_fewer_numbers_of_selected_positions(config):
    on, off = (TrainingConfig(max_update=1, cuda_graph=choice) for choice in ("auto", "off"))
    assert choose_row_multiple(on, World(device=GPU)) == 256
    assert {choose_row_multiple(*each) for each in ((off, World(device=GPU)), (on, World()))} == {
        64
    }


def test_run_that_asks_for_graphs_in_vain_is_told_once_and_trains(config, capsys):
    training = TrainingRun(config(cuda_graph="auto", max_update=2), World())
    training.fit()
    training.close()
    assert capsys.readouterr().err.count("CUDA graphs: none, since the device is cpu") == 1
    assert not isinstance(training.trainer.accumulator, GraphedAccumulator)

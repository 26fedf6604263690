from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.helpers.operation_recorder import OperationRecorder
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.training import cuda_graphs
from toolkit.training.adjustments import make_adjustments
from toolkit.training.cuda_graphs import (
    GraphedAccumulator,
    choose_row_multiple,
    enable_cuda_graphs,
    reason_against_graphs,
    record_updates,
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


class PluginLayer(nn.Linear):
    pass


class RecordedLayer(nn.Linear):
    allows_cuda_graphs = True


LEARNERS = {
    nn.Linear: "",
    RecordedLayer: "",
    PluginLayer: "CUDA graphs: none, since PluginLayer of a plugin does not set allows_cuda_graphs",
}


@pytest.mark.parametrize("layer", LEARNERS)
def test_modules_of_plugins_have_no_graphs_unless_they_allow_them(config, monkeypatch, layer):
    training = TrainingRun(config(max_update=2), World())
    trainer, messages = training.trainer, []
    training.close()
    trainer.learner.extra, trainer.world = layer(2, 2), World(device=GPU)
    monkeypatch.setattr(cuda_graphs, "GraphRecorder", lambda device: OperationRecorder())
    enable_cuda_graphs(trainer, TrainingConfig(max_update=1), messages.append)
    assert messages == [LEARNERS[layer]] * bool(LEARNERS[layer])
    assert isinstance(trainer.accumulator, GraphedAccumulator) is not bool(messages)


def test_option_that_changes_during_the_run_ends_graphs(config):
    c, messages = config(**{"arch.dropout": "0.2:0"}), []
    training = TrainingRun(c, World())
    training.close()
    record_updates(training.trainer, OperationRecorder(), messages.append)
    make_adjustments(c, training.train, training.trainer)
    assert training.trainer.accumulator.graphs.stopped
    assert messages == [
        "CUDA graphs: none from now on (ToolkitError: arch.dropout changes during the run)"
    ]

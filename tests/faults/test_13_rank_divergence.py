"""Scenario 13: 1e-3 is added to one parameter of one rank."""

from __future__ import annotations

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.training.run import TrainingRun


def test_diverged_parameter_is_detected_within_one_interval(config, ranks):
    def train(world):
        c = config(check_ranks_interval=2, batch_size=4, no_save=True, max_epoch=9)
        training = TrainingRun(c, world)
        parameter = dict(training.trainer.learner.named_parameters())["task.head.bias"]

        def advance(step):
            if step.update == 3 and world.rank == 1:
                with torch.no_grad():
                    parameter.view(-1)[0] += 1e-3

        training.advance_progress_bar = advance
        with pytest.raises(ToolkitError, match=r"all ranks must have the same parameters") as error:
            training.fit()
        training.close()
        return training.trainer.progress.update, str(error.value)

    first, second = ranks(train)
    assert first == second and 3 <= first[0] < 5
    assert "rank 1 differs from the others, first in task.head.bias" in first[1]

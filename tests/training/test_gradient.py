import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.distributed import World


def test_loss_is_the_weighted_mean_over_predictions(make_trainer, batch):
    trainer, data = make_trainer(), batch([[3, 5, 4, 5], [4, 4, 3, 6]])
    losses, failure = trainer.accumulator.try_accumulate([(data, 1)], data.weights)
    wanted = losses["word"] / 2 + 0.5 * losses["even"] / 1
    assert float(trainer.accumulator.global_loss(losses, data.weights)) == pytest.approx(
        float(wanted)
    )
    assert not failure


def test_discard_removes_the_gradient_of_a_failed_pass(make_trainer, batch):
    trainer, data = make_trainer(), batch([[3, 5, 4, 5]])
    trainer.learner.task.word.weight.register_hook(lambda g: torch.empty(2**50))
    losses, failure = trainer.accumulator.try_accumulate([(data, 1)], data.weights)
    assert losses == {} and "1 sentences x 4 tokens" in failure and "allocate" in failure
    trainer.accumulator.discard()
    assert all(p.grad is None for p in trainer.parameters)


def test_sharded_ranks_stop_if_one_runs_out_of_memory(make_trainer, batch):
    trainer, data = make_trainer(), batch([[3, 5, 4, 5]])
    trainer.accumulator.world = World(rank=1, size=2)  # without DDP there is nothing to finish

    def full(module, inputs):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    trainer.learner.register_forward_pre_hook(full)
    error = r"memory of rank 1, but a batch of 1 sentences x 4 tokens .* did not, and sharded ranks"
    with pytest.raises(ToolkitError, match=error):
        trainer.accumulator.try_accumulate([(data, 1)], data.weights)


def test_tokens_outside_the_table_are_reported_before_the_batch_reaches_the_device(
    make_trainer, batch
):
    trainer, data = make_trainer(), batch([[3, 5, 4, 999]])
    trainer.learner.register_forward_pre_hook(lambda module, inputs: 1 / 0)
    error = r"token ids must lie in 0 \.\. \d+ for this model, but range from 3 to 999\. Prep"
    with pytest.raises(ToolkitError, match=error):
        trainer.accumulator.try_accumulate([(data, 1)], data.weights)

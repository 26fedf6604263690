import pytest
import torch

from toolkit.common.arrays import derive_seed
from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.training.run import TrainingRun
from toolkit.training.step import TrainingProgress


def flat(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.parameters])


def room_for(trainer, sentences):
    """Passes through the learner run out of memory with more sentences than this."""

    def check(module, inputs):
        if len(inputs[0].inputs.tokens) > sentences:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    trainer.learner.register_forward_pre_hook(check)
    return trainer


def fit(trainer, data, updates=3, **options):
    steps = []
    trainer.fit(lambda epoch: data, max_update=updates, callbacks=[steps.append], **options)
    return steps


@pytest.mark.parametrize("sentences", [4, 2, 1])
def test_split_update_equals_the_whole_update(make_trainer, batches, memory, sentences):
    whole, parted = make_trainer(update_freq=2), room_for(make_trainer(update_freq=2), sentences)
    fit(whole, memory(batches))
    steps = fit(parted, memory(batches))
    torch.testing.assert_close(flat(parted), flat(whole), atol=1e-6, rtol=0)
    assert (
        steps[0].oom_failures[0].startswith("a batch of 5 sentences x 4 tokens (CUDA out of memory")
    )


def test_training_stops_with_the_shape_if_no_part_fits(make_trainer, batches, memory):
    error = r"fit into memory, but a batch of 3 sentences x 4 tokens \(CUDA out of memory.*\) did"
    with pytest.raises(ToolkitError, match=error + r" not on rank 0 in update 1, nor .* in 16 par"):
        fit(room_for(make_trainer(), 0), memory(batches))


def test_micro_batch_seeds_follow_the_index_in_the_epoch(make_trainer, batches):
    halving = make_trainer(seed=7).accumulate_gradients
    halving.world = World(rank=1, size=2)
    pieces = halving.split_micro_batches(
        batches[:2], TrainingProgress(update=3, epoch=2, consumed=3)
    )
    assert [seed for _, seed in pieces] == [derive_seed(7, 2, 3), derive_seed(7, 2, 5)]


def words(batch):
    """(sentence, its masked words) of a batch, without padding."""
    found, width = [], batch.inputs.tokens.shape[1]
    for row, tokens in enumerate(batch.inputs.tokens.tolist()):
        mine = batch.selected.div(width, rounding_mode="floor").eq(row) & batch.targets.ge(0)
        found.append((tokens[: tokens.index(0)] if 0 in tokens else tokens, mine, batch.targets))
    return [(tuple(tokens), *targets[mine].tolist()) for tokens, mine, targets in found]


@pytest.mark.parametrize("count", [2, 3, 16])
def test_parts_of_a_batch_mask_the_same_words(config, count):
    training = TrainingRun(config(no_save=True), World())
    loader = training.train.loader_for(1)
    (whole,) = next(iter(loader.updates(1)))
    parts = loader.split_micro_batch(1, 0, count)
    assert len(parts) == min(count, whole.sentences)
    assert sum(part.weights["mlm"] for part in parts) == whole.weights["mlm"]
    assert [it[1:] for part in parts for it in words(part)] == [it[1:] for it in words(whole)]
    training.close()


def test_idle_batch_has_one_part_of_weight_zero(config):
    training = TrainingRun(config(no_save=True), World())
    loader = training.train.loader_for(1)
    (part,) = loader.split_micro_batch(1, 99, 4)
    assert part.weights == {"mlm": 0.0} and part.sentences == 0
    assert list(loader.example_ids(1, 99)) == []
    training.close()

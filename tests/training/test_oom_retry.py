import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.random_hash import derive_seed
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
    trainer.fit(lambda epoch: data, max_update=updates, observers=[steps.append], **options)
    return steps


@pytest.mark.parametrize("sentences", [4, 2, 1])
def test_an_update_in_parts_equals_the_whole_one(make_trainer, batches, memory, sentences):
    whole, parted = make_trainer(update_freq=2), room_for(make_trainer(update_freq=2), sentences)
    fit(whole, memory(batches))
    steps = fit(parted, memory(batches))
    torch.testing.assert_close(flat(parted), flat(whole), atol=1e-6, rtol=0)
    assert (
        steps[0].oom_failures[0].startswith("a batch of 5 sentences x 4 tokens (CUDA out of memory")
    )


def test_the_next_update_is_tried_whole_again(make_trainer, batches, memory):
    trainer = room_for(make_trainer(), 4)  # the second of these micro-batches has 5 sentences
    assert [bool(step.oom_failures) for step in fit(trainer, memory(batches))] == [
        False,
        True,
        False,
    ]


def test_what_does_not_fit_in_any_part_ends_training_with_its_shape(make_trainer, batches, memory):
    said = r"fit into memory, but a batch of 3 sentences x 4 tokens \(CUDA out of memory.*\) did"
    with pytest.raises(ToolkitError, match=said + r" not on rank 0 in update 1, nor .* in 16 par"):
        fit(room_for(make_trainer(), 0), memory(batches))


def test_a_micro_batch_has_its_own_seed_wherever_in_the_epoch_the_ranks_begin(
    make_trainer, batches
):
    halving = make_trainer(seed=7).accumulate_gradients
    halving.world = World(rank=1, size=2)
    pieces = halving.split_micro_batches(
        batches[:2], TrainingProgress(update=3, epoch=2, consumed=3)
    )
    assert [piece.seed for piece in pieces] == [derive_seed(7, 2, 3), derive_seed(7, 2, 5)]


def test_an_update_in_parts_is_the_same_every_time(make_trainer, batches, memory):
    def learned():
        trainer = room_for(make_trainer(dropout=0.5), 2)
        fit(trainer, memory(batches))
        return flat(trainer)

    assert torch.equal(learned(), learned())


def words(batch):
    """(sentence, its hidden words) of a batch, whatever the padding."""
    found, width = [], batch.inputs.tokens.shape[1]
    for row, tokens in enumerate(batch.inputs.tokens.tolist()):
        mine = batch.selected.div(width, rounding_mode="floor").eq(row) & batch.targets.ge(0)
        found.append((tokens[: tokens.index(0)] if 0 in tokens else tokens, mine, batch.targets))
    return [(tuple(tokens), *targets[mine].tolist()) for tokens, mine, targets in found]


@pytest.mark.parametrize("count", [2, 3, 16])
def test_the_parts_of_a_batch_hide_the_same_words(config, count):
    training = TrainingRun(config(no_save=True), World())
    loader = training.train.loader_for(1)
    (whole,) = next(iter(loader.updates(1)))
    parts = loader.split_micro_batch(1, 0, count)
    assert len(parts) == min(count, whole.sentences)
    assert sum(part.weights["mlm"] for part in parts) == whole.weights["mlm"]
    assert [it[1:] for part in parts for it in words(part)] == [it[1:] for it in words(whole)]
    training.close()


def test_an_idle_ranks_batch_has_one_part_of_weight_zero(config):
    training = TrainingRun(config(no_save=True), World())
    loader = training.train.loader_for(1)
    (part,) = loader.split_micro_batch(1, 99, 4)
    assert part.weights == {"mlm": 0.0} and part.sentences == 0
    assert list(loader.example_ids(1, 99)) == []
    training.close()

import pytest
import torch

from toolkit.common.arrays import derive_seed
from toolkit.common.errors import ToolkitError, is_out_of_memory
from toolkit.distributed import World
from toolkit.training.gradient import run_in_memory
from toolkit.training.run import TrainingRun
from toolkit.training.setup import probe
from toolkit.training.step import TrainingProgress


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


def test_run_in_memory_raises_other_errors():
    def fail():
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run_in_memory(fail)


def test_is_out_of_memory_recognizes_only_memory_errors():
    assert is_out_of_memory(torch.OutOfMemoryError()) and is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def full(trainer):
    """The learner, out of memory with more than four sentences."""

    def check(module, inputs):
        if len(inputs[0].inputs.tokens) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    trainer.learner.register_forward_pre_hook(check)
    return trainer


def test_probe_reports_that_the_largest_batch_does_not_fit(make_trainer, batches, memory):
    error = r"the largest batch must fit into memory, but a batch of 5 sentences x 4 tokens \(CUDA"
    with pytest.raises(ToolkitError, match=error):
        probe(full(make_trainer()), memory(batches))


@pytest.mark.slow
def test_probe_fails_on_all_ranks_if_one_runs_out_of_memory(ranks, make_trainer, batches, memory):
    def start(world):
        trainer = make_trainer(world=world)
        if world.rank == 1:
            full(trainer)
        with pytest.raises(ToolkitError, match=r"CUDA out of memory\) did not on rank 1\. Lower"):
            probe(trainer, memory(batches))

    ranks(start)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
def test_probe_changes_neither_random_state_nor_weights(ranks, make_trainer, batches, memory, size):
    def train(world):
        found = []
        for probes in (False, True):
            trainer = make_trainer(world=world, dropout=0.5, update_freq=2)
            torch.manual_seed(5)
            before = torch.get_rng_state()
            if probes:
                probe(trainer, memory(batches))
            assert torch.equal(torch.get_rng_state(), before)
            data = memory(batches, rank=world.rank, ranks=size)
            trainer.fit(lambda epoch, data=data: data, max_update=5)
            found.append(torch.cat([p.detach().flatten() for p in trainer.parameters]))
        return torch.equal(*found)

    assert ranks(train, size) == [True] * size


def test_run_probes_memory_only_if_configured(config, monkeypatch):
    tried = []
    monkeypatch.setattr("toolkit.training.setup.probe", lambda t, data: tried.append(data))
    for asked in ("auto", "always"):
        training = TrainingRun(config(memory_probe=asked, max_update=0, no_save=True), World())
        training.fit()
        training.close()
    assert len(tried) == 1


@pytest.mark.gpu
def test_probe_reports_the_batch_shape_on_a_full_gpu(make_trainer, batches, memory):
    gpu = torch.device("cuda", 0)
    world = World(device=gpu)
    trainer = make_trainer(world=world)
    trainer.learner.to(gpu)
    room, _ = torch.cuda.mem_get_info()
    trainer.learner.encoder.mix.register_forward_hook(
        lambda m, i, y: y + torch.zeros(room, device=gpu)[0]
    )
    with pytest.raises(ToolkitError, match=r"5 sentences x 4 tokens \(CUDA out of memory"):
        probe(trainer, memory(batches))

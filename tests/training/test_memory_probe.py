import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.training.run import TrainingRun
from toolkit.training.setup import probe


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

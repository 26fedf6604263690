"""Scenario 18: one rank runs out of memory, in the forward or the backward pass."""

from __future__ import annotations

import pytest
import torch

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.training.run import TrainingRun

CALM = {"arch__dropout": 0.0, "arch__attention_dropout": 0.0, "optimizer": "sgd", "lr": 0.1}
SHORT = {"max_update": 5, "batch_size": 4, "valid_subset": "", **CALM}


def out_of_memory(*ignored):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB.")


def starved(config, world, where, fails, **options):
    """A run whose second rank fails if `fails(update, sentences)`."""
    training = TrainingRun(config(**{**SHORT, **options}), world)
    trainer = training.trainer

    def check(module, inputs):
        tokens = inputs[0].inputs.tokens
        if world.rank != 1 or not fails(trainer.progress.update + 1, len(tokens)):
            return
        if where == "forward":
            out_of_memory()
        first = next(p for p in trainer.parameters if p.dim() == 2)
        hooks.append(first.register_hook(out_of_memory))

    def clean(module, inputs):
        while hooks:
            hooks.pop().remove()

    hooks = []
    trainer.learner.register_forward_pre_hook(clean)
    trainer.learner.register_forward_pre_hook(check)
    return training


def train(training):
    try:
        result = training.fit()
    finally:
        training.close()
    weights = torch.cat([p.detach().flatten() for p in training.trainer.parameters])
    return result.updates, weights.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "update_freq"),
    [("backward", 2), ("forward", 1)],
)
def test_out_of_memory_on_one_rank_halves_the_batches_on_all(
    config, ranks, tmp_path, where, update_freq
):
    def learn(world):
        def never(update, sentences):
            return False

        def once(update, sentences):
            return update == 3 and sentences > 2

        options = {"update_freq": update_freq, "max_epoch": 9}
        calm = train(starved(config, world, where, never, save_dir=str(tmp_path / "a"), **options))
        return calm, train(starved(config, world, where, once, **options))

    ((updates, calm), (same, got)), second = ranks(learn)
    assert updates == same == 5 and second[1] == (same, got)
    torch.testing.assert_close(torch.tensor(got), torch.tensor(calm), atol=1e-6, rtol=0)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    (event,) = [r for r in map(json_files.loads, lines) if r["event"] == "split_update"]
    assert (event["update"], event["reason"]) == (3, "out of memory")
    assert "on rank 1" in event["text"] and "4 sentences x" in event["text"]


@pytest.mark.slow
def test_permanent_out_of_memory_stops_both_ranks_with_the_shape(config, ranks):
    def learn(world):
        training = starved(config, world, "forward", lambda update, sentences: update >= 3)
        with pytest.raises(ToolkitError, match=r"Lower --max-tokens or --batch-size") as error:
            train(training)
        return training.trainer.progress.update, str(error.value)

    first, second = ranks(learn)
    assert first == second and first[0] == 2
    assert "fit into memory, but a batch of 4 sentences x" in first[1]
    assert "did not on rank 1 in update 3, nor did it in 16 parts" in first[1]

"""Checkpoints of sharded runs: written in shards, read by any number of ranks."""

from __future__ import annotations

import hashlib

import pytest
import torch
from safetensors.torch import load_file

from toolkit import load_checkpoint
from toolkit.checkpoints import save_folder, tensor_files
from toolkit.checkpoints.save_folder import CheckpointSaveError, SaveFolder, verify_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.distributed.data_parallel import to_full
from toolkit.training.run import TrainingRun


def values(training):
    """Weights and optimizer of a run by name: a digest of each tensor's bytes."""
    learner, optimizer = training.trainer.learner, training.trainer.optimizer
    tensors = {**learner.state_dict(), **tensor_files.collect_state(optimizer, learner)}
    return {
        name: hashlib.sha256(to_full(tensor).numpy().tobytes()).hexdigest()
        for name, tensor in tensors.items()
    }


def made(config, world, train=True, until=None):
    """The state of a run at its end, or at the point it resumes from."""
    training = TrainingRun(config, world)

    def advance(step):
        if step.update == until:
            training.trainer.request_stop()

    training.advance_progress_bar = advance
    try:
        if train:
            training.fit()
        return values(training)
    finally:
        training.close()


@pytest.mark.slow
def test_sharded_checkpoint_has_the_complete_weights(config, ranks, tmp_path):
    ranks(lambda world: made(config(sharding="full", max_update=2), world) and None)
    folder = tmp_path / "run" / "checkpoint_last"
    names = [path.relative_to(folder).as_posix() for path in tensor_files.list_shards(folder)]
    assert names == [f"sharded/shard_0000{n}_of_00002.safetensors" for n in (1, 2)]
    assert set(names) < verify_checkpoint(folder).files.keys()
    learner = load_checkpoint(folder)
    for name, tensor in load_file(folder / "model.safetensors").items():
        assert torch.equal(tensor, learner.state_dict()[name])
    assert not list((tmp_path / "run").glob(".*.tmp"))
    tensor_files.list_shards(folder)[0].unlink()
    load_checkpoint(folder)


def test_failed_shard_fails_the_save_on_all_ranks(ranks, tmp_path, monkeypatch):
    monkeypatch.setattr(save_folder, "RETRY_DELAYS_SECONDS", (0.0,))

    def save(world):
        if world.rank == 1:
            monkeypatch.setattr(tensor_files, "write_shard", full)
        try:
            tensor_files.write_rank_shard(
                SaveFolder(tmp_path), "checkpoint_e1_u1", {"a": torch.ones(2)}, world
            )
        except CheckpointSaveError as error:
            return str(error)
        return None

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    first, second = ranks(save)
    assert first == second and "rank 1 could not write" in first and "No space left" in first


def test_shards_on_different_disks_are_reported(tmp_path):
    (tmp_path / "written").mkdir()
    (tmp_path / "written" / "shard_00001_of_00002.safetensors").touch()
    with pytest.raises(ToolkitError, match=r"must be one folder for all ranks, but .* 1 of 2"):
        tensor_files.link_shards(tmp_path / "written", tmp_path, 2)


@pytest.mark.slow
def test_sharded_run_supports_all_options_and_resumes(config, ranks):
    """With EMA, rank checks, spike detection, memory probe and activation checkpointing."""
    options = {"sharding": "full", "checkpoint_activations": True, "optimizer": "muon"}
    options |= {"ema_decay": 0.9, "check_ranks_interval": 1, "skip_spikes": True}
    options |= {"optimizer.normuon_beta2": 0.9}
    sharded = config(**options, memory_probe="always", validate_interval_updates=2)
    ranks(lambda world: made(sharded, world, until=3) and None)
    first, second = ranks(lambda world: made(sharded, world))
    assert first == second == made(sharded, World(), train=False)

"""The contents of a checkpoint: all that resuming bit for bit, or using the model, requires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch

from toolkit import __version__
from toolkit.checkpoints import optimizer_state, sharded
from toolkit.checkpoints.load import AVERAGE, MODEL, OPTIMIZER, STATE, write_config
from toolkit.checkpoints.save_folder import SaveFolder, checkpoint_name, try_delete
from toolkit.checkpoints.tensor_files import write_tensors
from toolkit.common.json_files import write_json
from toolkit.config.run import RunConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed.sharded_tensors import gather_on_main, is_sharded
from toolkit.models.interface import Sizes
from toolkit.training.callbacks.ema import ExponentialMovingAverage
from toolkit.training.step import State, Stateful
from toolkit.training.trainer import Trainer


class CheckpointWriter:
    """Writes the state of a run to a checkpoint."""

    def __init__(
        self,
        folder: SaveFolder,
        trainer: Trainer,
        stateful: Mapping[str, Stateful],
        *,
        config: RunConfig,
        sizes: Sizes,
        tokenizer: Tokenizer,
        data: Mapping[str, str],
        ema: ExponentialMovingAverage | None = None,
    ) -> None:
        self.folder, self.trainer, self.stateful = folder, trainer, stateful
        self.config, self.sizes, self.tokenizer, self.data = config, sizes, tokenizer, data
        self.ema = ema

    def state(self) -> State:
        """All state except tensors; all ranks must call it, since some sum over ranks."""
        trainer = self.trainer
        scale = trainer.precision.loss_scale
        return {
            "progress": asdict(trainer.progress),
            "callbacks": {name: each.state() for name, each in self.stateful.items()},
            "loss_scale": scale.state() if scale else None,
            "precision": trainer.precision.name,
            "ranks": trainer.world.size,
            "data": dict(self.data),
        }

    def save(self, update: int, epoch: int, reasons: list[str]) -> None:
        """Write a checkpoint; all ranks must call it, and the main rank writes all but shards."""
        state, world, learner = self.state(), self.trainer.world, self.trainer.learner
        name = checkpoint_name(epoch, update)
        average = self.ema.state_dict() if self.ema else {}
        weights = learner.state_dict()
        moments = optimizer_state.collect_state(self.trainer.optimizer, learner)
        shared = None
        if is_sharded(learner):
            shared = sharded.write_rank_shard(self.folder, name, {**weights, **moments}, world)
            weights = gather_on_main(weights, world)
        if not world.is_main:
            return

        def fill(folder: Path) -> None:
            write_tensors(folder / MODEL, weights)
            if shared:
                sharded.link_shards(shared, folder, world.size)
            else:
                write_tensors(folder / OPTIMIZER, moments)
            if average:
                write_tensors(folder / AVERAGE, average)
            write_json(folder / STATE, state, end="", indent=1, ensure_ascii=False)
            write_config(folder, self.config, self.sizes)
            self.tokenizer.save(folder)

        facts = {"update": update, "epoch": epoch, "reasons": reasons}
        versions = {"toolkit": __version__, "torch": torch.__version__}
        self.folder.write(name, fill, {**facts, "versions": versions})
        if shared:
            try_delete(shared)

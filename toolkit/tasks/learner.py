"""The learner: an encoder with a task, which is trained and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.checkpoints.load import check_data_matches_checkpoint, check_metadata, write_model
from toolkit.checkpoints.save_folder import check_new_folder
from toolkit.common.errors import ToolkitError
from toolkit.criteria import Criterion
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.storage.memory_folder import SPLIT
from toolkit.models.interface import EncoderModel
from toolkit.models.module_names import find_modules
from toolkit.tasks.batch import Batch, to_device
from toolkit.tasks.dataset import TaskDataset
from toolkit.tasks.examples import SHAPE_MULTIPLE, SplitSource
from toolkit.tasks.origin import Origin
from toolkit.tasks.task import Task
from toolkit.tasks.text_model import TextModel


class Learner(TextModel):
    """An encoder and its task: the module to wrap for data parallelism.

    Wrapping the encoder alone would leave the gradients of the task's heads unsynchronized.
    `encoder` and `task` are attributes; `build_model` and `load_checkpoint` make learners.
    """

    def __init__(self, encoder: EncoderModel, task: Task[Any, Any, Any]) -> None:
        super().__init__(encoder, task)
        self._frozen: tuple[nn.Module, ...] = ()
        self.origin: Origin | None = None
        """What it was built from; None if it was not built by build_model or load_checkpoint."""
        self.metadata: dict[str, Any] = {}
        """What was given to `save` as metadata, if the learner is that of a checkpoint."""

    def freeze(self, patterns: Sequence[str]) -> None:
        """Exclude modules of the encoder from training.

        `patterns` is a list such as ["embeddings", "layers.0-5"], or ["encoder"] for all of it.
        Their parameters get no gradients, and they stay in evaluation mode, without dropout. Make
        the optimizer afterwards, from the parameters that require gradients.
        """
        if isinstance(patterns, str):
            raise ToolkitError("patterns must be a list, but is a single text. Put it in brackets.")
        modules = find_modules(self.encoder, patterns)
        for module in modules:
            module.requires_grad_(False)
        if not any(p.requires_grad for p in self.parameters()):
            raise ToolkitError(
                f"freezing {', '.join(patterns)} leaves no parameter to train. Freeze less, or "
                f"choose a task with a head."
            )
        self._frozen += tuple(modules)
        self.train(self.training)

    def train(self, mode: bool = True) -> Learner:
        """Set training or evaluation mode; frozen modules stay in evaluation mode."""
        super().train(mode)
        for module in self._frozen:
            module.eval()
        return self

    @cached_property
    def criterion(self) -> Criterion:
        """The criterion of the checkpoint's run, or the task's default."""
        return self.require_origin().make_criterion()

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        """The loss to minimize: the mean of each objective times its coefficient, summed.

        The batch, of `dataset` or `open_dataset`, is moved to the learner's device.
        """
        self.encoder.check_ids(batch.inputs)
        device = self.encoder.token_embedding.weight.device
        totals = self.criterion(self(to_device(batch, device, packs=self.uses_packing)))
        means = [
            self.task.coefficients[name] * total / max(batch.weights[name], 1.0)
            for name, total in totals.items()
        ]
        return torch.stack(means).sum()

    def dataset(
        self,
        items: Sequence[object],
        labels: Sequence[object] | None = None,
        *,
        training: bool = True,
        seed: int = 1,
    ) -> TaskDataset:
        """Texts in memory as examples: of mlm, mpm, rtd, language_modeling, or with labels of glue.

        Pretraining reads them like the lines of one document: with task option sample_mode pairs,
        the default, texts 1-2, 3-4, ... are an example each. An item of glue is a text or a pair.

        With `training`, random choices such as masks are drawn for each batch; otherwise they
        depend on `seed` only.
        """
        folder = self.task.encode_items(self.encoder, self.tokenizer, items, labels)
        return self._make_dataset(SplitSource(folder, SPLIT, seed, training, SHAPE_MULTIPLE))

    def open_dataset(
        self, folder: str | Path, split: str = "train", *, training: bool = True, seed: int = 1
    ) -> TaskDataset:
        """A split of a data folder of toolkit-preprocess as examples, for every task.

        With `training`, random choices such as masks are drawn for each batch; otherwise they
        depend on `seed` only.
        """
        opened = DataFolder.open(folder)
        check_data_matches_checkpoint(opened.tokenizer, str(folder), self.tokenizer, "the learner")
        return self._make_dataset(SplitSource(opened, split, seed, training, SHAPE_MULTIPLE))

    def _make_dataset(self, source: SplitSource) -> TaskDataset:
        config = self.task.resolve_for(self.require_origin().task.config, self.encoder)
        return TaskDataset(self.task.examples(config, source), training=source.training)

    def require_origin(self) -> Origin:
        """What the learner was built from; raises if it was not built by name."""
        if self.origin is None:
            raise ToolkitError(
                "This requires a learner made by build_model or load_checkpoint, which know the "
                "names and options of its architecture and task."
            )
        return self.origin

    def save(self, path: str | Path, *, metadata: Mapping[str, object] | None = None) -> None:
        """Write a checkpoint without optimizer state to a new folder; load_checkpoint reads it.

        `metadata` is a mapping of your own that JSON can hold: the loaded learner has it again. It
        defaults to the metadata that this learner was loaded with.
        """
        metadata = self.metadata if metadata is None else metadata
        origin = self.require_origin()
        check_new_folder(Path(path), "path")
        write_model(
            Path(path),
            self.state_dict(),
            run=origin.to_run(),
            sizes=origin.sizes,
            tokenizer=self.tokenizer,
            facts={"reasons": ["save"], "metadata": check_metadata(metadata)},
        )

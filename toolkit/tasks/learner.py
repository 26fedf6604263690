"""The learner: an encoder with a task, which is trained and saved."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.checkpoints.load import check_data_matches_checkpoint, check_metadata, write_model
from toolkit.checkpoints.save_folder import check_new_folder
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CRITERIA
from toolkit.config.load import compose
from toolkit.config.sections import ComponentConfig, RunConfig, TrainingConfig
from toolkit.criteria import Criterion, LazyPrediction
from toolkit.data.storage.data_folder import SPLIT, DataFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import MaskPrediction
from toolkit.models.interface import EncoderModel, Inputs, Sizes, find_modules
from toolkit.nn.adapters import add_bottlenecks, add_low_rank
from toolkit.tasks.embed import Pooling, collate_texts, embed_rows, encode_texts
from toolkit.tasks.examples import SHAPE_MULTIPLE, Batch, SplitSource, TaskDataset, to_device
from toolkit.tasks.predictions import TRUNCATED, parse_items, predict_batches
from toolkit.tasks.task import (
    FillsMasks,
    OrdersWords,
    PredictsItems,
    ReadsItems,
    Task,
    check_examples,
    require,
)

log = logging.getLogger(__name__)


class Origin(NamedTuple):
    """Architecture, task and sizes, by which a learner is built again."""

    arch: ComponentConfig
    task: ComponentConfig
    sizes: Sizes
    run: RunConfig | None = None
    """The training run, if the learner is that of a checkpoint."""

    def to_run(self) -> RunConfig:
        """The run, or one with default training options."""
        run = self.run or compose({"arch": self.arch.name, "task": self.task.name})
        return replace(run, arch=self.arch, task=self.task)


class Learner(nn.Module):
    """An encoder and its task: the module to wrap for data parallelism.

    Wrapping the encoder alone would leave the gradients of the task's heads unsynchronized.
    `encoder` and `task` are attributes; `build_model` and `load_checkpoint` make learners. The
    methods on texts run in evaluation mode.
    """

    def __init__(self, encoder: EncoderModel, task: Task[Any, Any, Any]) -> None:
        super().__init__()
        self.encoder, self.task = encoder, task
        self._tokenizer: Tokenizer | None = None
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

    def adapt(self, c: TrainingConfig) -> None:
        """Add the adapters that `c` asks for, of which alone the encoder learns."""
        if not c.has_adapters:
            return
        self.encoder.requires_grad_(False)
        if c.lora_rank:
            add_low_rank(self.encoder, c.lora_rank, c.lora_alpha, c.lora_targets)
        if c.bottleneck:
            add_bottlenecks(self.encoder, c.bottleneck)

    def train(self, mode: bool = True) -> Learner:
        """Set training or evaluation mode; frozen modules stay in evaluation mode."""
        super().train(mode)
        for module in self._frozen:
            module.eval()
        return self

    @cached_property
    def criterion(self) -> Criterion:
        """The criterion of the checkpoint's run, or the task's default."""
        config = self.require_origin().to_run().criterion
        return CRITERIA[config.name].factory(config.config)

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        """The loss to minimize: the mean of each objective times its coefficient, summed.

        The batch, of `dataset` or `open_dataset`, is moved to the learner's device.
        """
        self.encoder.check_ids(batch.inputs)
        device = self.encoder.token_embedding.weight.device
        totals = self.criterion(self(to_device(batch, device, packs=self.encoder.uses_packing)))
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
        reader = require(self.task, ReadsItems)
        folder = reader.encode_items(self.encoder, self.tokenizer, items, labels)
        return self._make_dataset(SplitSource(folder, SPLIT, seed, training, SHAPE_MULTIPLE))

    def open_dataset(
        self, folder: str | Path, split: str = "train", *, training: bool = True, seed: int = 1
    ) -> TaskDataset:
        """A split of a data folder of toolkit-preprocess as examples, for every task.

        `training` and `seed` are as in `dataset`.
        """
        opened = DataFolder.open(folder)
        check_data_matches_checkpoint(opened.tokenizer, str(folder), self.tokenizer, "the learner")
        return self._make_dataset(SplitSource(opened, split, seed, training, SHAPE_MULTIPLE))

    def _make_dataset(self, source: SplitSource) -> TaskDataset:
        config = self.task.resolve_for(self.require_origin().task.config, self.encoder)
        examples = self.task.examples(config, source)
        check_examples(examples, self.encoder, f"{source.name} of {source.folder.name}")
        return TaskDataset(examples, training=source.training)

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

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the training data; load_checkpoint sets it."""
        if self._tokenizer is None:
            raise ToolkitError(
                "The learner has no tokenizer. Load it with load_checkpoint, give build_model a "
                "tokenizer, or set learner.tokenizer."
            )
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer) -> None:
        rows, tokens = self.encoder.token_embedding.num_embeddings, len(tokenizer.vocabulary)
        if tokens > rows:
            raise ToolkitError(
                f"the tokenizer must have at most {rows:,} tokens, as many as the model's "
                f"embedding, but has {tokens:,}. Build the model with this tokenizer."
            )
        self._tokenizer = tokenizer

    def forward(self, batch: Batch) -> Mapping[str, LazyPrediction]:
        """Objective -> predictions and targets for a batch; call the learner itself instead."""
        return self.task.predict(self.encoder, batch)

    def encode(self, texts: Sequence[str]) -> Inputs:
        """The texts as one batch for the encoder, on its device: `learner.encoder(inputs)`.

        Special tokens are added. Texts are truncated to the length that the encoder reads.
        """
        inputs = collate_texts(self._encode_rows(texts), self.tokenizer.vocabulary.pad)
        return to_device(inputs, self.encoder.token_embedding.weight.device)

    def embed(
        self,
        texts: Sequence[str],
        *,
        layers: SupportsIndex | Sequence[SupportsIndex] = -1,
        pooling: Pooling | None = "mean",
        batch_size: int = 32,
    ) -> Any:
        """One vector per text, (N, D): the mean of the states of its tokens, [CLS] and [SEP] too.

        `pooling` is mean, max, first (the state of the first token) or None: then the result is a
        list with the states of the tokens of each text, (S, D). `layers` is the layer to read, 0
        for the embeddings and -1 for the last; several make vectors of (L, D). The encoder reads
        `batch_size` texts at a time. Vectors are on the CPU and do not depend on the other texts,
        up to rounding.
        """
        check_limits(batch_size=batch_size)
        with self._evaluating() as tokenizer:
            vectors = embed_rows(
                self._encode_rows(texts),
                self.encoder,
                tokenizer.vocabulary.pad,
                layers=layers,
                pooling=pooling,
                batch_size=batch_size,
            )
        return vectors if pooling is None else torch.stack(vectors)

    def _encode_rows(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text with the special tokens of the task."""
        special = self.task.special_tokens(self.tokenizer.vocabulary)
        return encode_texts(texts, self.tokenizer, self.encoder, special)

    def fill_mask(
        self, sentences: str | list[str], top: int = 5, *, batch_size: int = 32
    ) -> list[Any]:
        """The `top` most probable tokens for each [MASK]; for a list, one list per sentence.

        The encoder reads `batch_size` sentences at a time.
        """
        check_limits(batch_size=batch_size, top=top)
        texts = [sentences] if isinstance(sentences, str) else sentences
        task = require(self.task, FillsMasks)
        with self._evaluating() as tokenizer:
            predictions = [
                prediction
                for start in range(0, len(texts), batch_size)
                for prediction in task.fill_mask(
                    self.encoder, tokenizer, texts[start : start + batch_size], top
                )
            ]
        return predictions[0] if isinstance(sentences, str) else predictions

    def order_words(self, sentence: str, top: int = 5) -> tuple[str, list[MaskPrediction]]:
        """The sentence with its words in braces, or all of them, in their most probable order.

        Also the `top` most probable positions of each token of these words.
        """
        with self._evaluating() as tokenizer:
            task = require(self.task, OrdersWords)
            return task.order_words(self.encoder, tokenizer, sentence, top)

    def predict(
        self,
        items: Sequence[object],
        *,
        batch_size: int | None = None,
        max_tokens: int | None = None,
    ) -> list[Any]:
        """One prediction per item, such as a LabelPrediction: a NamedTuple of the task's.

        An item is a text; a tuple, such as a pair or a question with its passage; a list of words;
        or a mapping with the names that tables and JSON use. A batch has at most `batch_size` items
        and `max_tokens` tokens, padding included; without a limit it is that of evaluation: 32
        items. An item longer than `max_tokens` is a batch by itself.
        """
        check_limits(batch_size=batch_size, max_tokens=max_tokens)
        if isinstance(items, str | Mapping):
            raise ToolkitError(
                "learner.predict takes a list of items. Put a single one in brackets."
            )
        with self._evaluating():
            task = require(self.task, PredictsItems)
            predictor = task.predictor_class(task, self.encoder, self.tokenizer)
            results = predictor.start(parse_items(predictor, items))
            if truncated := results.examples.truncated:
                log.warning(f"{truncated:,} of {len(items):,} items {TRUNCATED}.")
            limits = {"max_tokens": max_tokens, "batch_size": batch_size}
            device, packs = next(self.parameters()).device, self.encoder.uses_packing
            return [*predict_batches(results, self, device, **limits, packs=packs)]

    @contextmanager
    def _evaluating(self) -> Iterator[Tokenizer]:
        """In evaluation mode, with the tokenizer."""
        tokenizer, training = self.tokenizer, self.training
        self.eval()
        try:
            yield tokenizer
        finally:
            self.train(training)


def check_limits(**limits: int | None) -> None:
    """Raise unless the limits are positive, or None for no limit."""
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise ToolkitError(f"{name} must be at least 1, but is {limit}. Raise it.")

"""The data of a run: a loader for each split, and the shards of each epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.sections import ComponentConfig, DataConfig
from toolkit.data.loading.batching import CorpusWeights, compute_fingerprint
from toolkit.data.loading.loader import BatchLoader
from toolkit.data.storage.data_folder import Corpora, DataFolder
from toolkit.distributed import World
from toolkit.models.interface import EncoderModel, Sizes
from toolkit.tasks.examples import SHAPE_MULTIPLE, Batch, Examples, SplitSource
from toolkit.tasks.task import check_examples

MAX_EVALUATION_TOKENS = 16_384
"""Tokens per evaluation batch on a GPU, where nothing is stored for a backward pass."""


@dataclass(frozen=True, kw_only=True)
class LoadedSplit:
    """A split with its examples and loader."""

    name: str
    examples: Examples[Batch]
    loader: BatchLoader[Batch]
    weights: CorpusWeights | None = None


def open_split(
    name: str,
    folder: DataFolder,
    task: ComponentConfig,
    c: DataConfig,
    *,
    world: World,
    seed: int,
    training: bool,
    row_multiple: int = SHAPE_MULTIPLE,
    weigh: Callable[[Examples[Batch]], CorpusWeights] | None = None,
) -> LoadedSplit:
    """One split of a folder as the task's examples, with this rank's loader."""
    examples = make_examples(
        name, folder, task, seed=seed, training=training, row_multiple=row_multiple
    )
    longest = int(examples.lengths.max(initial=0))
    max_tokens, batch_size = batch_limits(c, longest, world.device, training=training)
    weights = weigh(examples) if weigh else None
    loader = BatchLoader(
        examples,
        max_tokens=max_tokens,
        batch_size=batch_size,
        seed=seed,
        rank=world.rank,
        ranks=world.size,
        workers=c.num_workers,
        timeout_seconds=c.timeout_seconds,
        shuffle=training,
        pin_memory=world.device.type == "cuda",
        corpus_weights=weights,
        name=f"{name} of {folder.name}",
        words=examples.count_words() if training else None,
    )
    return LoadedSplit(name=name, examples=examples, loader=loader, weights=weights)


def batch_limits(
    c: DataConfig, longest: int, device: torch.device, *, training: bool
) -> tuple[int | None, int | None]:
    """Maximum numbers of tokens and of examples per batch."""
    if not training and (c.max_tokens_valid or c.batch_size_valid):
        return c.max_tokens_valid, c.batch_size_valid
    if not training and device.type == "cuda":
        return max(MAX_EVALUATION_TOKENS, longest), None
    return c.max_tokens, c.batch_size or (None if c.max_tokens else 32)


def make_examples(
    name: str,
    folder: DataFolder,
    task: ComponentConfig,
    *,
    seed: int,
    training: bool,
    row_multiple: int = SHAPE_MULTIPLE,
) -> Examples[Batch]:
    """The examples that a task makes of a split."""
    source = SplitSource(folder, name, seed, training, row_multiple)
    examples: Examples[Batch] = TASKS[task.name].factory.examples(task.config, source)
    return examples


class TrainingData:
    """The loader of every epoch, over that epoch's shards in proportion to their weights.

    One epoch's shards are loaded at a time; those of the first determine the run's fingerprints.
    """

    def __init__(
        self,
        corpora: Corpora,
        task: ComponentConfig,
        c: DataConfig,
        *,
        world: World,
        seed: int,
        row_multiple: int = SHAPE_MULTIPLE,
    ) -> None:
        self._corpora, self._task, self._c = corpora, task, c
        self._world, self._seed, self._row_multiple = world, seed, row_multiple
        self._sizes: dict[int, int] = {}
        """Shard -> its number of micro-batches."""
        corpora.check_split(c.train_subset)
        self._shard, self._split = 0, self._open(0)
        self.description = self._describe()
        """Numbers of examples, for the summary of the run."""
        prints = (self._split.examples.fingerprint, self._split.loader.fingerprint)
        if corpora.cycle > 1:  # one shard does not identify the others
            prints = (
                compute_fingerprint(prints[0], corpora.all.fingerprint),
                compute_fingerprint(prints[1], corpora.all.fingerprint),
            )
        self.fingerprints = dict(zip(("examples", "order"), prints, strict=True))

    @property
    def examples(self) -> Examples[Batch]:
        """The examples of the shards that are loaded."""
        return self._split.examples

    def micro_batches(self, epoch: int) -> int:
        """Number of micro-batches of an epoch over all ranks."""
        shard = (epoch - 1) % self._corpora.cycle
        if shard not in self._sizes:
            self._sizes[shard] = self.loader_for(epoch).micro_batches(epoch)
        return self._sizes[shard]

    def words(self, epoch: int) -> IntArray | None:
        """Words before each of the epoch's micro-batches and at its end; None if not counted."""
        return self.loader_for(epoch).words(epoch)

    def example_ids(self, epoch: int, micro_batch: int) -> IntArray:
        """The examples of one of the epoch's micro-batches."""
        return self.loader_for(epoch).example_ids(epoch, micro_batch)

    def loader_for(self, epoch: int) -> BatchLoader[Batch]:
        """The loader of an epoch; the loader of other shards is closed."""
        shard = (epoch - 1) % self._corpora.cycle
        if shard != self._shard:
            self.close()
            self._shard, self._split = shard, self._open(shard)
        return self._split.loader

    def check(self, encoder: EncoderModel) -> None:
        """Raise unless the encoder can read the examples of all shards."""
        name = self._c.train_subset
        check_examples(self.examples, encoder, name)
        for shard in {*range(self._corpora.cycle)} - {self._shard}:
            folder = self._corpora.for_epoch(shard + 1)
            examples = make_examples(name, folder, self._task, seed=self._seed, training=True)
            check_examples(examples, encoder, f"{name} of {folder.name}")

    def close(self) -> None:
        self._split.loader.close()

    def _open(self, shard: int) -> LoadedSplit:
        return open_split(
            self._c.train_subset,
            self._corpora.for_epoch(shard + 1),
            self._task,
            self._c,
            world=self._world,
            seed=self._seed,
            training=True,
            row_multiple=self._row_multiple,
            weigh=partial(self._weigh_corpora, shard + 1) if self._c.weights else None,
        )

    def _weigh_corpora(self, epoch: int, examples: Examples[Batch]) -> CorpusWeights:
        """The corpus weights over `examples`, to which each corpus adds some after those before."""
        prefixes = [
            make_examples(
                self._c.train_subset,
                folder,
                self._task,
                seed=self._seed,
                training=True,
                row_multiple=self._row_multiple,
            ).lengths
            for folder in self._corpora.prefixes(epoch)
        ]
        if not all(np.array_equal(it, examples.lengths[: len(it)]) for it in prefixes):
            raise ToolkitError(
                f"data.weights requires a task that reads corpus after corpus, but "
                f"{self._task.name} mixes them. Leave data.weights out."
            )
        ends = [*map(len, prefixes), len(examples.lengths)]
        return CorpusWeights(np.diff(ends, prepend=0).tolist(), self._c.weights)

    def _describe(self) -> str:
        text = f"{len(self._split.examples.lengths):,} in {self._c.train_subset}"
        if weights := self._split.weights:
            parts = zip(weights.per_epoch, weights.counts, strict=True)
            shares = " + ".join(f"{used:,} of {count:,}" for used, count in parts)
            text = f"{sum(weights.per_epoch):,} in {self._c.train_subset}, {shares}"
        shards, remark = self._corpora.cycle, self._split.examples.remark
        text += f", {remark}" if remark else ""
        return text + (f" (epoch 1 of a round of {shards})" if shards > 1 else "")


def split_names(subsets: str) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in subsets.split(",") if name.strip()]


def resolve_task(task: ComponentConfig, arch: ComponentConfig) -> ComponentConfig:
    """The task with its config resolved for the architecture."""
    resolved = TASKS[task.name].factory.resolve_for(task.config, arch.config)
    return ComponentConfig(task.name, resolved)


def to_sizes(folder: DataFolder) -> Sizes:
    """The sizes of a model for the data of a folder."""
    return Sizes(**folder.tokenizer.sizes)

"""The data of a run: a loader for each split, and for each epoch the shards that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.run import ComponentConfig
from toolkit.config.sections import DataConfig
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.loading.corpus_weights import CorpusWeights
from toolkit.data.loading.loader import BatchLoader
from toolkit.data.storage.corpora import Corpora
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.models.interface import Sizes
from toolkit.tasks.examples import Examples, SplitSource

Numbers = npt.NDArray[np.int64]
MAX_EVALUATION_TOKENS = 16_384
"""Per evaluation batch on a GPU, where nothing is stored for a backward pass."""


@dataclass(frozen=True, kw_only=True)
class LoadedSplit:
    name: str
    examples: Examples[Any]
    loader: BatchLoader


def open_split(
    name: str,
    folder: DataFolder,
    task: ComponentConfig,
    c: DataConfig,
    *,
    world: World,
    seed: int,
    training: bool,
) -> LoadedSplit:
    """One split of a folder as the task's examples, with this rank's loader."""
    examples = make_examples(name, folder, task, seed=seed, training=training)
    told = f"{name} of {folder.name}"
    loader = make_loader(examples, c, world=world, seed=seed, training=training, name=told)
    return LoadedSplit(name=name, examples=examples, loader=loader)


def make_loader(
    examples: Examples[Any],
    c: DataConfig,
    *,
    world: World,
    seed: int,
    training: bool,
    name: str,
    mixture: CorpusWeights | None = None,
) -> BatchLoader:
    longest = int(examples.lengths.max(initial=0))
    max_tokens, batch_size = batch_limits(c, longest, world.device, training=training)
    return BatchLoader(
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
        corpus_weights=mixture,
        name=name,
    )


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
    name: str, folder: DataFolder, task: ComponentConfig, *, seed: int, training: bool
) -> Examples[Any]:
    build: Any = TASKS[task.name].factory
    source = SplitSource(folder, name, seed=seed, training=training, fixed_shapes=True)
    examples: Examples[Any] = build.examples(task.config, source)
    return examples


class TrainingData:
    """The loader of every epoch, over that epoch's shards in proportion to their weights.

    One epoch's shards are loaded at a time; those of the first determine the run's fingerprints.
    """

    def __init__(
        self, corpora: Corpora, task: ComponentConfig, c: DataConfig, *, world: World, seed: int
    ) -> None:
        self._corpora, self._task, self._c = corpora, task, c
        self._world, self._seed = world, seed
        self._sizes: dict[int, int] = {}
        corpora.check_split(c.train_subset)
        self._shard, self._split, self.description = 0, self._open(0), ""
        self.description = self._describe()
        """Numbers of examples, for the summary of the run."""
        prints = (self._split.examples.fingerprint, self._split.loader.fingerprint)
        if corpora.cycle > 1:  # one shard does not identify the others
            prints = (
                compute_fingerprint(prints[0], corpora.fingerprint),
                compute_fingerprint(prints[1], corpora.fingerprint),
            )
        self.fingerprints = dict(zip(("examples", "order"), prints, strict=True))

    @property
    def examples(self) -> Examples[Any]:
        """The examples of the shards that are loaded."""
        return self._split.examples

    def micro_batches(self, epoch: int) -> int:
        """Number of micro-batches of an epoch over all ranks."""
        turn = self._shard_of_epoch(epoch)
        if turn not in self._sizes:
            self._sizes[turn] = self.loader_for(epoch).micro_batches(epoch)
        return self._sizes[turn]

    def updates(self, epoch: int, *, start: int = 0, update_freq: int = 1) -> Iterator[list[Any]]:
        """As Loader.updates, of the epoch's own loader."""
        yield from self.loader_for(epoch).updates(epoch, start=start, update_freq=update_freq)

    def example_ids(self, epoch: int, micro_batch: int) -> Numbers:
        """As Loader.ids."""
        return self.loader_for(epoch).example_ids(epoch, micro_batch)

    def split_micro_batch(self, epoch: int, micro_batch: int, count: int) -> list[Any]:
        """As Loader.parts."""
        return self.loader_for(epoch).split_micro_batch(epoch, micro_batch, count)

    def largest_batches(self, epoch: int) -> list[Any]:
        """As Loader.largest."""
        return self.loader_for(epoch).largest_batches(epoch)

    def loader_for(self, epoch: int) -> BatchLoader:
        """The loader of an epoch; that of other shards is closed."""
        if self._shard_of_epoch(epoch) != self._shard:
            self.close()
            self._shard, self._split = (
                self._shard_of_epoch(epoch),
                self._open(self._shard_of_epoch(epoch)),
            )
        return self._split.loader

    def close(self) -> None:
        self._split.loader.close()

    def _shard_of_epoch(self, epoch: int) -> int:
        return (epoch - 1) % self._corpora.cycle

    def _open(self, turn: int) -> LoadedSplit:
        name, folder = self._c.train_subset, self._corpora.for_epoch(turn + 1)
        examples = self._examples(folder)
        self._mixture = self._mixture_of(examples, turn + 1) if self._c.weights else None
        loader = make_loader(
            examples,
            self._c,
            world=self._world,
            seed=self._seed,
            training=True,
            name=f"{name} of {folder.name}",
            mixture=self._mixture,
        )
        return LoadedSplit(name=name, examples=examples, loader=loader)

    def _examples(self, folder: DataFolder) -> Examples[Any]:
        name = self._c.train_subset
        return make_examples(name, folder, self._task, seed=self._seed, training=True)

    def _mixture_of(self, examples: Examples[Any], epoch: int) -> CorpusWeights:
        """The corpus weights over `examples`, of which each corpus adds some to those before it."""
        before = [self._examples(folder).lengths for folder in self._corpora.prefixes(epoch)]
        if not all(np.array_equal(some, examples.lengths[: len(some)]) for some in before):
            raise ToolkitError(
                f"data.weights must meet a task whose examples stand corpus by corpus, but those "
                f"of {self._task.name} do not. Leave data.weights out."
            )
        ends = [*map(len, before), len(examples.lengths)]
        return CorpusWeights(np.diff(ends, prepend=0).tolist(), self._c.weights)

    def _describe(self) -> str:
        found = f"{len(self._split.examples.lengths):,} in {self._c.train_subset}"
        if self._mixture:
            parts = zip(self._mixture.per_epoch, self._mixture.counts, strict=True)
            shares = " + ".join(f"{met:,} of {count:,}" for met, count in parts)
            found = f"{sum(self._mixture.per_epoch):,} in {self._c.train_subset}, {shares}"
        shards, remark = self._corpora.cycle, self._split.examples.remark
        found += f", {remark}" if remark else ""
        return found + (f" (epoch 1 of a round of {shards})" if shards > 1 else "")


def split_names(subsets: str) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in subsets.split(",") if name.strip()]


def resolve_task(task: ComponentConfig, arch: ComponentConfig) -> ComponentConfig:
    """The task with its config resolved for the architecture."""
    build: Any = TASKS[task.name].factory
    return ComponentConfig(task.name, build.resolve_for(task.config, arch.config))


def to_sizes(folder: DataFolder) -> Sizes:
    return Sizes(**folder.tokenizer.sizes)

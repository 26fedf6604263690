"""The data of a run: a loader for each split, and for each epoch the shards it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.run import Chosen
from toolkit.config.sections import DataConfig
from toolkit.data.loading.batching import fingerprint_of
from toolkit.data.loading.corpus_weights import Mixture
from toolkit.data.loading.examples import Examples, Remarked
from toolkit.data.loading.loader import Loader
from toolkit.data.storage.corpora import Corpora
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.models.interface import Sizes

Numbers = npt.NDArray[np.int64]
EVALUATED_TOKENS = 16_384
"""In one batch of an evaluation on a GPU, where nothing is kept for a backward pass."""


@dataclass(frozen=True, kw_only=True)
class Split:
    name: str
    examples: Examples
    loader: Loader


def split_of(
    name: str,
    folder: DataFolder,
    task: Chosen,
    c: DataConfig,
    *,
    world: World,
    seed: int,
    training: bool,
) -> Split:
    """One split of a folder as the task sees it, with this rank's loader."""
    examples = examples_of(name, folder, task, seed=seed, training=training)
    told = f"{name} of {folder.name}"
    loader = loader_of(examples, c, world=world, seed=seed, training=training, name=told)
    return Split(name=name, examples=examples, loader=loader)


def loader_of(
    examples: Examples,
    c: DataConfig,
    *,
    world: World,
    seed: int,
    training: bool,
    name: str,
    mixture: Mixture | None = None,
) -> Loader:
    longest = int(examples.lengths.max(initial=0))
    max_tokens, batch_size = bounds(c, longest, world.device, training=training)
    return Loader(
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
        mixture=mixture,
        name=name,
    )


def bounds(
    c: DataConfig, longest: int, device: torch.device, *, training: bool
) -> tuple[int | None, int | None]:
    """Most tokens and most examples in one batch."""
    if not training and (c.max_tokens_valid or c.batch_size_valid):
        return c.max_tokens_valid, c.batch_size_valid
    if not training and device.type == "cuda":
        return max(EVALUATED_TOKENS, longest), None
    return c.max_tokens, c.batch_size or (None if c.max_tokens else 32)


def examples_of(
    name: str, folder: DataFolder, task: Chosen, *, seed: int, training: bool
) -> Examples:
    build: Any = TASKS[task.name].build
    examples: Examples = build.examples(
        task.config, folder, name, seed=seed, training=training, fixed_shapes=True
    )
    return examples


class TrainingData:
    """The loader of every epoch, over that epoch's shards in the proportion of their weights.

    One epoch's shards are loaded at a time; those of the first say what the run learns from.
    """

    def __init__(
        self, corpora: Corpora, task: Chosen, c: DataConfig, *, world: World, seed: int
    ) -> None:
        self._corpora, self._task, self._c = corpora, task, c
        self._world, self._seed = world, seed
        self._sizes: dict[int, int] = {}
        corpora.require(c.train_subset)
        self._turn, self._split, self.described = 0, self._open(0), ""
        self.described = self._described()
        """How many examples there are, in words."""
        prints = (self._split.examples.fingerprint, self._split.loader.fingerprint)
        if corpora.cycle > 1:  # one shard says nothing of the others
            prints = (
                fingerprint_of(prints[0], corpora.fingerprint),
                fingerprint_of(prints[1], corpora.fingerprint),
            )
        self.fingerprints = dict(zip(("examples", "order"), prints, strict=True))

    @property
    def examples(self) -> Examples:
        """Those of the shards at hand."""
        return self._split.examples

    def micro_batches(self, epoch: int) -> int:
        """Micro-batches of the epoch over all ranks."""
        turn = self._turn_of(epoch)
        if turn not in self._sizes:
            self._sizes[turn] = self.of_epoch(epoch).micro_batches(epoch)
        return self._sizes[turn]

    def updates(self, epoch: int, *, start: int = 0, update_freq: int = 1) -> Iterator[list[Any]]:
        """As Loader.updates, of the epoch's own loader."""
        yield from self.of_epoch(epoch).updates(epoch, start=start, update_freq=update_freq)

    def ids(self, epoch: int, micro_batch: int) -> Numbers:
        """As Loader.ids."""
        return self.of_epoch(epoch).ids(epoch, micro_batch)

    def parts(self, epoch: int, micro_batch: int, count: int) -> list[Any]:
        """As Loader.parts."""
        return self.of_epoch(epoch).parts(epoch, micro_batch, count)

    def largest(self, epoch: int) -> list[Any]:
        """As Loader.largest."""
        return self.of_epoch(epoch).largest(epoch)

    def of_epoch(self, epoch: int) -> Loader:
        """The epoch's loader; that of other shards is closed."""
        if self._turn_of(epoch) != self._turn:
            self.close()
            self._turn, self._split = self._turn_of(epoch), self._open(self._turn_of(epoch))
        return self._split.loader

    def close(self) -> None:
        self._split.loader.close()

    def _turn_of(self, epoch: int) -> int:
        return (epoch - 1) % self._corpora.cycle

    def _open(self, turn: int) -> Split:
        name, folder = self._c.train_subset, self._corpora.of_epoch(turn + 1)
        examples = self._examples(folder)
        self._mixture = self._mixed(examples, turn + 1) if self._c.weights else None
        loader = loader_of(
            examples,
            self._c,
            world=self._world,
            seed=self._seed,
            training=True,
            name=f"{name} of {folder.name}",
            mixture=self._mixture,
        )
        return Split(name=name, examples=examples, loader=loader)

    def _examples(self, folder: DataFolder) -> Examples:
        name = self._c.train_subset
        return examples_of(name, folder, self._task, seed=self._seed, training=True)

    def _mixed(self, together: Examples, epoch: int) -> Mixture:
        """The weights over the examples of each corpus: those that it adds to the ones before."""
        before = [self._examples(folder).lengths for folder in self._corpora.growing(epoch)]
        if not all(np.array_equal(some, together.lengths[: len(some)]) for some in before):
            raise ToolkitError(
                f"data.weights must meet a task whose examples stand corpus by corpus, but those "
                f"of {self._task.name} do not. Leave data.weights out."
            )
        ends = [*map(len, before), len(together.lengths)]
        return Mixture(np.diff(ends, prepend=0).tolist(), self._c.weights)

    def _described(self) -> str:
        found = f"{len(self._split.examples.lengths):,} in {self._c.train_subset}"
        if self._mixture:
            parts = zip(self._mixture.per_epoch, self._mixture.counts, strict=True)
            shares = " + ".join(f"{met:,} of {count:,}" for met, count in parts)
            found = f"{sum(self._mixture.per_epoch):,} in {self._c.train_subset}, {shares}"
        shards, remark = self._corpora.cycle, remark_on(self._split.examples)
        found += f", {remark}" if remark else ""
        return found + (f" (epoch 1 of a round of {shards})" if shards > 1 else "")


def remark_on(examples: Examples) -> str:
    """How much of the data these leave out or cut, in words; empty where all is there."""
    return examples.remark if isinstance(examples, Remarked) else ""


def names(subsets: str) -> list[str]:
    """The splits in a list separated by commas."""
    return [name.strip() for name in subsets.split(",") if name.strip()]


def suited(task: Chosen, arch: Chosen) -> Chosen:
    """The task as the data of a run needs it: with what the architecture demands filled in."""
    build: Any = TASKS[task.name].build
    return Chosen(task.name, build.suited(task.config, arch.config))


def sizes_of(folder: DataFolder) -> Sizes:
    return Sizes(**folder.codec.counts)

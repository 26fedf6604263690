"""The data of a run: a loader for each split, and the shards of each epoch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.schedules import Number, RunSchedules, ValueSchedule
from toolkit.config.sections import ComponentConfig, DataConfig
from toolkit.data.loading.batching import CorpusWeights, Curriculum, compute_fingerprint
from toolkit.data.loading.loader import BatchLoader
from toolkit.data.storage.data_folder import Corpora, DataFolder
from toolkit.data.text_files import read_text
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
    source: SplitSource,
    task: ComponentConfig,
    c: DataConfig,
    *,
    world: World,
    weigh: Callable[[Examples[Batch]], CorpusWeights] | None = None,
) -> LoadedSplit:
    """One split of a folder as the task's examples, with this rank's loader."""
    examples = make_examples(task, source)
    longest = int(examples.lengths.max(initial=0))
    max_tokens, batch_size = batch_limits(c, longest, world.device, training=source.training)
    weights = weigh(examples) if weigh else None
    loader = BatchLoader(
        examples,
        max_tokens=max_tokens,
        batch_size=batch_size,
        seed=source.seed,
        rank=world.rank,
        ranks=world.size,
        workers=c.num_workers,
        timeout_seconds=c.timeout_seconds,
        shuffle=source.training,
        pin_memory=world.device.type == "cuda",
        corpus_weights=weights,
        name=f"{source.name} of {source.folder.name}",
        words=examples.count_words() if source.training else None,
        fills=c.fill_batches and source.training,
        curriculum=make_curriculum(c, examples) if c.curriculum and source.training else None,
    )
    return LoadedSplit(name=source.name, examples=examples, loader=loader, weights=weights)


NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


def make_curriculum(c: DataConfig, examples: Examples[Batch]) -> Curriculum:
    """What the first epochs sort by."""
    if c.curriculum == "length":
        difficulty = examples.lengths.astype(np.float64)
    elif c.curriculum == "rarity":
        difficulty = examples.measure_rarity()
    elif not (path := Path(c.curriculum)).is_file():
        raise ToolkitError(
            f"data.curriculum must be length, rarity or a file with a number for each example, but "
            f"is {path}, and there is no such file. Correct it."
        )
    else:
        lines = read_text(path).splitlines()
        for number in (n for n, line in enumerate(lines) if not NUMBER.fullmatch(line)):
            raise ToolkitError(
                f"{path}:{number + 1}: expected a number, found {lines[number][:40]!r}."
            )
        if len(lines) != len(examples.lengths):
            raise ToolkitError(
                f"{path} must have a number for each of the {len(examples.lengths):,} training "
                f"examples, but has {len(lines):,}. Write one per line, in order."
            )
        difficulty = np.array(lines, np.float64)
    return Curriculum(difficulty, c.curriculum_epochs)


def batch_limits(
    c: DataConfig, longest: int, device: torch.device, *, training: bool
) -> tuple[int | None, int | None]:
    """Maximum numbers of tokens and of examples per batch."""
    if not training and (c.max_tokens_valid or c.batch_size_valid):
        return c.max_tokens_valid, c.batch_size_valid
    if not training and device.type == "cuda":
        return max(MAX_EVALUATION_TOKENS, longest), None
    return c.max_tokens, c.batch_size or (None if c.max_tokens else 32)


def make_examples(task: ComponentConfig, source: SplitSource) -> Examples[Batch]:
    """The examples that a task makes of a split."""
    return TASKS[task.name].factory.examples(task.config, source)


Variant = tuple[int, tuple[Number, ...]]
"""The shard of an epoch, and its values of SCHEDULED_BY_EPOCH."""

TOKENS_PER_SAMPLE = "task.tokens_per_sample"
SCHEDULED_BY_EPOCH = (TOKENS_PER_SAMPLE, "data.max_tokens", "data.batch_size")
"""Options on which the micro-batches of an epoch depend."""


def check_by_epoch(path: str, schedule: ValueSchedule) -> None:
    """Raise a ToolkitError unless a schedule of SCHEDULED_BY_EPOCH can be followed."""
    values = schedule.values
    if any(step.unit == "%" or step.time % 1 for step in schedule.steps):
        raise ToolkitError(
            f"{path} must change at the start of an epoch, but is {schedule.text}. Write steps "
            f"such as 64@0,128@2epochs."
        )
    if path == TOKENS_PER_SAMPLE and not 0 < min(values) <= max(values) == values[-1]:
        raise ToolkitError(
            f"{path} must have its largest value last, which evaluation uses, and none of 0, but "
            f"is {schedule.text}."
        )


class TrainingData:
    """The loader of every epoch, over that epoch's shards in proportion to their weights.

    One epoch's shards and options are loaded at a time; the first determine the fingerprints.
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
        schedules: Mapping[str, ValueSchedule] | None = None,
    ) -> None:
        self._corpora, self._task, self._c = corpora, task, c
        self._world, self._seed, self._row_multiple = world, seed, row_multiple
        self.schedules = RunSchedules(schedules or {})
        both = self.schedules.schedules.items()
        self._by_epoch = {path: it for path, it in both if path in SCHEDULED_BY_EPOCH}
        for path, schedule in self._by_epoch.items():
            check_by_epoch(path, schedule)
        self._sizes: dict[Variant, int] = {}
        """Shard and options -> the number of micro-batches."""
        corpora.check_split(c.train_subset)
        self._variant, self._split = self._variant_of(1), self._open(1)
        self.description = self._describe()
        """Numbers of examples, for the summary of the run."""
        prints = [self._split.examples.fingerprint, self._split.loader.fingerprint]
        if corpora.cycle > 1:  # one shard does not identify the others
            prints = [compute_fingerprint(it, corpora.all.fingerprint) for it in prints]
        if texts := [f"{path} {schedule.text}" for path, schedule in self._by_epoch.items()]:
            prints[1] = compute_fingerprint(prints[1], *texts)
        self.fingerprints = dict(zip(("examples", "order"), prints, strict=True))

    @property
    def examples(self) -> Examples[Batch]:
        """The examples of the shards that are loaded."""
        return self._split.examples

    @property
    def scheduled(self) -> tuple[str, ...]:
        """Paths of the options whose schedules the batches follow."""
        return (*SCHEDULED_BY_EPOCH, *self.examples.scheduled)

    def micro_batches(self, epoch: int) -> int:
        """Number of micro-batches of an epoch over all ranks."""
        variant = self._variant_of(epoch)
        if variant not in self._sizes:
            self._sizes[variant] = self.loader_for(epoch).micro_batches(epoch)
        return self._sizes[variant]

    def words(self, epoch: int) -> IntArray | None:
        """Words before each of the epoch's micro-batches and at its end; None if not counted."""
        return self.loader_for(epoch).words(epoch)

    def example_ids(self, epoch: int, micro_batch: int) -> IntArray:
        """The examples of one of the epoch's micro-batches."""
        return self.loader_for(epoch).example_ids(epoch, micro_batch)

    def loader_for(self, epoch: int) -> BatchLoader[Batch]:
        """The loader of an epoch; the loader of other shards is closed."""
        variant = self._variant_of(epoch)
        if variant != self._variant:
            self.close()
            self._variant, self._split = variant, self._open(epoch)
        return self._split.loader

    def check(self, encoder: EncoderModel, model: str = "the model") -> None:
        """Raise unless the encoder of a model can read the examples of all epochs."""
        name, checked = self._c.train_subset, {self._variant}
        check_examples(self.examples, encoder, name, model)
        changes = [int(step.time) for it in self._by_epoch.values() for step in it.steps]
        for epoch in range(1, max(changes, default=0) + self._corpora.cycle + 1):
            if (variant := self._variant_of(epoch)) not in checked:
                checked.add(variant)
                folder = self._corpora.for_epoch(epoch)
                examples = make_examples(self._configs(epoch)[0], self._source(folder))
                check_examples(examples, encoder, f"{name} of {folder.name}", model)

    def close(self) -> None:
        self._split.loader.close()

    def _variant_of(self, epoch: int) -> Variant:
        values = [it.value(epoch - 1, math.inf) for it in self._by_epoch.values()]
        return (epoch - 1) % self._corpora.cycle, tuple(values)

    def _configs(self, epoch: int) -> tuple[ComponentConfig, DataConfig]:
        """The options of the task and of the batches in an epoch."""
        values: dict[str, dict[str, Any]] = {"task": {}, "data": {}}
        for path, schedule in self._by_epoch.items():
            section, _, name = path.partition(".")
            values[section][name] = schedule.value(epoch - 1, math.inf)
        task = replace(self._task, config=replace(self._task.config, **values["task"]))
        return task, replace(self._c, **values["data"])

    def _source(self, folder: DataFolder) -> SplitSource:
        split, seed = self._c.train_subset, self._seed
        return SplitSource(folder, split, seed, True, self._row_multiple, self.schedules)

    def _open(self, epoch: int) -> LoadedSplit:
        source, (task, c) = self._source(self._corpora.for_epoch(epoch)), self._configs(epoch)
        weigh = partial(self._weigh_corpora, epoch) if self._c.weights else None
        return open_split(source, task, c, world=self._world, weigh=weigh)

    def _weigh_corpora(self, epoch: int, examples: Examples[Batch]) -> CorpusWeights:
        """The corpus weights over `examples`, to which each corpus adds some after those before."""
        task, folders = self._configs(epoch)[0], self._corpora.prefixes(epoch)
        prefixes = [make_examples(task, self._source(folder)).lengths for folder in folders]
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
        if self._c.fill_batches:
            text += f", {self._split.loader.filler:.1%} filler"
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

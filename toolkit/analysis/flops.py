"""FLOPs of a pre-training run by part: one update is counted and multiplied.

On PyTorch's meta device tensors have no values, so that any size is counted within seconds. A model
that depends on values is run on the CPU. Recomputed activations are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CRITERIA, TASKS
from toolkit.config.run import RunConfig
from toolkit.config.sections import DataConfig
from toolkit.data.storage.corpora import Corpora
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.storage.synthetic import SyntheticFolder, synthetic_vocabulary
from toolkit.models.interface import Sizes
from toolkit.nn.layer_stack import LayerStack
from toolkit.tasks.batch import Batch, to_device
from toolkit.tasks.build import build_learner
from toolkit.tasks.examples import Examples, SplitSource
from toolkit.training.data import resolve_task
from toolkit.training.flop_counter import FlopCounter, attribute_flops

META, CPU = torch.device("meta"), torch.device("cpu")
BERT_VOCABULARY = 30522


class PassFlops(NamedTuple):
    """FLOPs of a micro-batch, forward and backward."""

    forward: int
    backward: int


class Flops(NamedTuple):
    """FLOPs of one update, its batches, and the number of updates."""

    run: RunConfig
    sizes: Sizes
    parts: Mapping[str, PassFlops]
    """Module name -> FLOPs, without the named modules inside it."""
    sentences: int
    """Number per micro-batch."""
    tokens: int
    """Number per sentence."""
    micro_batches: int
    """Number per update, over all ranks."""
    completed_updates: int | None = None
    """Updates so far, if the run was saved."""

    @property
    def batch(self) -> PassFlops:
        """FLOPs of one micro-batch, all parts together."""
        columns = zip(*self.parts.values(), strict=True)
        return PassFlops(*map(sum, columns))

    @property
    def update(self) -> int:
        """FLOPs of one update, forward and backward, over all ranks."""
        return sum(self.batch) * self.micro_batches


def count_flops(
    run: RunConfig, sizes: Sizes, *, ranks: int = 1, completed_updates: int | None = None
) -> Flops:
    """Count a run with sentences of maximum length and full batches."""
    examples = build_examples(run, sizes)
    tokens = int(examples.lengths.max())
    sentences = sentences_per_batch(run.data, tokens)
    longest = np.flatnonzero(examples.lengths == tokens)
    batch = examples.collate(np.resize(longest, sentences), 1)
    micro_batches = ranks * run.training.micro_batches_per_rank(ranks)
    parts = count_batch(run, sizes, batch)
    return Flops(run, sizes, parts, sentences, tokens, micro_batches, completed_updates)


def build_examples(run: RunConfig, sizes: Sizes) -> Examples[Any]:
    """Synthetic examples, or the run's data if the task does not learn from plain text."""
    task = resolve_task(run.task, run.arch)
    task_class: Any = TASKS[task.name].factory

    def load_examples(folder: DataFolder, split: str) -> Examples[Any]:
        source = SplitSource(folder, split, seed=run.training.seed, training=True)
        examples: Examples[Any] = task_class.examples(task.config, source)
        return examples

    items = 4 * min(sentences_per_batch(run.data, 1), 1 << 12)
    try:
        folder = SyntheticFolder(synthetic_vocabulary(sizes["tokens"]), items=items)
        return load_examples(folder, "train")
    except ToolkitError as error:
        missing = [folder for folder in run.data.dirs if not Path(folder).exists()]
        if missing or not run.data.dirs:
            raise ToolkitError(
                f"counting FLOPs of task {task.name} requires its data, but there is no such "
                f"folder: {', '.join(missing) or 'none given'} ({error})"
            ) from error
        return load_examples(Corpora.of_run(run.data).for_epoch(1), run.data.train_subset)


def sentences_per_batch(c: DataConfig, tokens: int) -> int:
    """Number of sentences that fill a micro-batch."""
    limits = [c.batch_size] if c.batch_size else []
    limits += [max(1, c.max_tokens // tokens)] if c.max_tokens else []
    return min(limits, default=32)


def count_batch(run: RunConfig, sizes: Sizes, batch: Batch) -> dict[str, PassFlops]:
    """Count one micro-batch on the meta device, or on the CPU if the model needs values."""
    try:
        return count_on_device(META, run, sizes, batch)
    except (RuntimeError, NotImplementedError):
        return count_on_device(CPU, run, sizes, batch)


def count_on_device(
    device: torch.device, run: RunConfig, sizes: Sizes, batch: Batch
) -> dict[str, PassFlops]:
    """FLOPs of one micro-batch by part, counted on this device."""
    criterion = CRITERIA[run.criterion.name].factory(run.criterion.config)
    with device:
        learner = build_learner(run.arch, run.task, sizes).train()
    learner.freeze(run.training.freeze)
    operations = FlopCounter()
    with operations, attribute_flops(operations, list_parts(learner)):
        totals = criterion(learner(to_device(batch, device)))
        forward = Counter(operations.by_owner)
        torch.stack(list(totals.values())).sum().backward()
    both = operations.by_owner
    return {name: PassFlops(forward[name], both[name] - forward[name]) for name in both}


def list_parts(learner: nn.Module) -> dict[str, nn.Module]:
    """Layers of every stack with their parts, and all modules outside of stacks."""
    return dict(walk_parts(learner, ""))


def walk_parts(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    """Modules with their names: layers and their parts, and modules outside of stacks."""
    for name, child in module.named_children():
        if isinstance(child, LayerStack):
            for number, layer in child.named_children():
                yield f"{prefix}{name}.{number}", layer
                for inner, part in layer.named_children():
                    yield f"{prefix}{name}.{number}.{inner}", part
        elif not prefix or any(isinstance(inner, LayerStack) for inner in child.modules()):
            yield from walk_parts(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child

"""FLOPs of a pre-training run by part: one update is counted and multiplied.

On PyTorch's meta device tensors have no values, so that any size is counted within seconds. A model
that depends on values is run on the CPU. Recomputed activations are not counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from toolkit.checkpoints.load import read_config
from toolkit.checkpoints.save_folder import read_manifest
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import CRITERIA, TASKS
from toolkit.config.command import format_columns
from toolkit.config.commands.checkpoints import FlopsConfig
from toolkit.config.load import LoadedConfig
from toolkit.config.sections import DataConfig, RunConfig
from toolkit.data.storage.data_folder import Corpora, make_synthetic_text
from toolkit.models.interface import Sizes
from toolkit.nn.layers import LayerStack
from toolkit.reporting.console import Output
from toolkit.reporting.tables import Cell, Table
from toolkit.tasks.build import build_learner
from toolkit.tasks.examples import Batch, Examples, SplitSource, to_device
from toolkit.training.callbacks.checkpointing import read_state
from toolkit.training.data import resolve_task, to_sizes
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
        return PassFlops(*map(sum, zip(*self.parts.values(), strict=True)))

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
    try:
        parts = count_on_device(META, run, sizes, batch)
    except (RuntimeError, NotImplementedError):  # the model needs values
        parts = count_on_device(CPU, run, sizes, batch)
    return Flops(run, sizes, parts, sentences, tokens, micro_batches, completed_updates)


def build_examples(run: RunConfig, sizes: Sizes) -> Examples[Any]:
    """Synthetic examples, or the run's data if the task does not learn from plain text."""
    task = resolve_task(run.task, run.arch)
    task_class, training = TASKS[task.name].factory, run.training
    items = 4 * min(sentences_per_batch(run.data, 1), 1 << 12)
    try:
        folder = make_synthetic_text(sizes["tokens"], items)
        source = SplitSource(folder, "train", seed=training.seed, training=True)
        found: Examples[Any] = task_class.examples(task.config, source)
    except ToolkitError as error:
        missing = [folder for folder in run.data.dirs if not Path(folder).exists()]
        if missing or not run.data.dirs:
            raise ToolkitError(
                f"counting FLOPs of task {task.name} requires its data, but there is no such "
                f"folder: {', '.join(missing) or 'none given'} ({error})"
            ) from error
        data = Corpora.of_run(run.data).for_epoch(1)
        source = SplitSource(data, run.data.train_subset, seed=training.seed, training=True)
        found = task_class.examples(task.config, source)
    return found


def sentences_per_batch(c: DataConfig, tokens: int) -> int:
    """Number of sentences that fill a micro-batch."""
    limits = [c.batch_size] if c.batch_size else []
    limits += [max(1, c.max_tokens // tokens)] if c.max_tokens else []
    return min(limits, default=32)


def count_on_device(
    device: torch.device, run: RunConfig, sizes: Sizes, batch: Batch
) -> dict[str, PassFlops]:
    """FLOPs of one micro-batch by part, counted on this device."""
    criterion = CRITERIA[run.criterion.name].factory(run.criterion.config)
    with device:
        learner = build_learner(run.arch, run.task, sizes).train()
        learner.adapt(run.training)
    learner.freeze(run.training.freeze)
    operations = FlopCounter()
    with operations, attribute_flops(operations, dict(walk_parts(learner, ""))):
        totals = criterion(learner(to_device(batch, device)))
        forward = Counter(operations.by_owner)
        torch.stack(list(totals.values())).sum().backward()
    both = operations.by_owner
    return {name: PassFlops(forward[name], both[name] - forward[name]) for name in both}


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


LAYER = re.compile(r"(?P<stack>.*)\.(?P<number>\d+)(?P<inner>\..+)?")


def checkpoint_flops(folder: Path) -> Flops:
    """FLOPs of a saved run."""
    state, updates = read_state(folder), read_manifest(folder).update
    ranks = state.ranks if state else 1
    return count_flops(*read_config(folder), ranks=ranks, completed_updates=updates)


def print_planned_flops(loaded: LoadedConfig) -> None:
    """Print the cost of a run from its options; the vocabulary size may come from the data."""
    c: FlopsConfig = loaded.extra["inspect"]
    run, sizes = loaded.config, Sizes(tokens=c.vocabulary_size or BERT_VOCABULARY)
    if run.data.dirs:
        sizes = to_sizes(Corpora.of_run(run.data).all)
    with Output(c.json) as output:
        print_flops(count_flops(run, sizes), output)


def print_flops(flops: Flops, output: Output) -> None:
    """Print the table of parts, and the cost of an update and of the run."""
    for name, part in flops.parts.items():
        per_sentence = {key: value / flops.sentences for key, value in part._asdict().items()}
        output.write("part", {"part": name, **per_sentence})
    run, updates = flops.run, flops.run.training.max_update
    record: JsonObject = {
        "architecture": run.arch.name,
        "task": run.task.name,
        "symbols": flops.sizes["tokens"],
        "sentences": flops.sentences,
        "tokens": flops.tokens,
        "micro_batches": flops.micro_batches,
        "forward": flops.batch.forward / flops.sentences,
        "backward": flops.batch.backward / flops.sentences,
        "update": flops.update,
        "updates": updates,
        "run": None if updates is None else flops.update * updates,
        "done": flops.completed_updates,
    }
    output.write("flops", record)
    flops_table(flops).print(output.console)
    print(format_columns(describe_flops(flops).items()), file=output.text_stream)


def describe_flops(flops: Flops) -> dict[str, str]:
    """Name -> text of the model, an update and the run."""
    run, updates, done = flops.run, flops.run.training.max_update, flops.completed_updates
    batches = f"{flops.micro_batches} x " if flops.micro_batches > 1 else ""
    facts = {
        "model": f"{run.arch.name}, {run.task.name}, {flops.sizes['tokens']:,} symbols",
        "update": f"{batches}{flops.sentences:,} sentences of {flops.tokens:,} tokens: "
        f"{flops.update:.2e} FLOP forward and backward",
    }
    if done:
        facts["so far"] = f"{done:,} updates: {done * flops.update:.2e} FLOP"
    if updates is not None:
        facts["run"] = f"{updates:,} updates: {updates * flops.update:.2e} FLOP"
    elif not done:
        facts["run"] = "pass --max-update for the total"
    return facts


def flops_table(flops: Flops) -> Table:
    """Million FLOPs per sentence, with equal layers in one row."""
    layers: dict[tuple[str, str], list[tuple[str, PassFlops]]] = {}
    for name, part in flops.parts.items():
        match = LAYER.fullmatch(name)
        stack, number, inner = match.group("stack", "number", "inner") if match else (name, "", "")
        layers.setdefault((stack, number), []).append((inner or "", part))
    stacks = list(dict.fromkeys(stack for stack, _ in layers))
    rows: list[list[Cell]] = []

    def add(name: str, part: PassFlops, share: str = "") -> None:
        rows.append([name, *(number / flops.sentences / 1e6 for number in part), share])

    in_order = sorted(layers.items(), key=lambda it: stacks.index(it[0][0]))
    for (stack, parts), group in groupby(in_order, key=lambda it: (it[0][0], it[1])):
        numbers = [number for (_, number), _ in group]
        each = PassFlops(*map(sum, zip(*(part for _, part in parts), strict=True)))
        number = f" layer {int(numbers[0]) + 1}" if numbers[0] else ""
        name = f"{stack.removesuffix('.layers') or 'between the parts'}{number}"
        if len(numbers) > 1:
            name = f"{name.replace(' layer ', ' layers ')} to {int(numbers[-1]) + 1}, each"
        add(name, each, f"{sum(each) * len(numbers) / sum(flops.batch):.1%}")
        for inner, part in parts:
            if inner:
                add(f"  {inner[1:]}", part)
    add("all", flops.batch, "100.0%")
    return Table(
        columns=("part", "forward", "backward", "share"),
        rows=rows,
        shared_precision=("forward", "backward"),
        right_align=("share",),
        caption=f"million operations per sentence of {flops.tokens:,} tokens; only matrix "
        f"products and convolutions count, a multiplication and an addition as two",
    )

"""toolkit-inspect --flops: FLOPs of a layer, an update and a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from toolkit.analysis.flops import BERT_VOCABULARY, Flops, PassFlops, count_flops
from toolkit.checkpoints import manifest
from toolkit.checkpoints.load import read_config
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.columns import format_columns
from toolkit.config.commands.inspect import FlopsConfig
from toolkit.config.run import RunConfig
from toolkit.data.storage.corpora import Corpora
from toolkit.models.interface import Sizes
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Cell, Table
from toolkit.training.callbacks.saved_state import read_state
from toolkit.training.data import to_sizes

LAYER = re.compile(r"(?P<stack>.*)\.(?P<number>\d+)(?P<inner>\..+)?")
MILLION = 1e6


class PartRow(NamedTuple):
    """A part of the model, or several equal ones."""

    name: str
    each: PassFlops
    alike: int
    inner: tuple[tuple[str, PassFlops], ...] = ()
    """Parts of a layer."""


def checkpoint_flops(folder: Path) -> Flops:
    """FLOPs of a saved run."""
    run, sizes = read_config(folder)
    state = read_state(folder)
    updates = manifest.read(folder).update
    return count_flops(run, sizes, ranks=state.ranks if state else 1, completed_updates=updates)


def run_flops(run: RunConfig, c: FlopsConfig) -> Flops:
    """FLOPs of a run given by options; the vocabulary size may come from the data."""
    if not run.data.dirs:
        return count_flops(run, Sizes(tokens=c.vocabulary_size or BERT_VOCABULARY))
    if c.vocabulary_size:
        raise ToolkitError(
            f"--vocabulary-size cannot be combined with data, which has a vocabulary: "
            f"{' '.join(run.data.dirs)}."
        )
    return count_flops(run, to_sizes(Corpora.of_run(run.data).all))


def print_flops(flops: Flops, output: Output) -> None:
    """Print the table of parts, and the cost of an update and of the run."""
    for name, part in flops.parts.items():
        per_sentence = {key: value / flops.sentences for key, value in part._asdict().items()}
        output.write("part", {"part": name, **per_sentence})
    output.write("flops", flops_record(flops))
    flops_table(flops).print(output.console)
    print(format_columns(describe_flops(flops).items()), file=output.text_stream)


def flops_record(flops: Flops) -> JsonObject:
    """The cost as a JSON event; forward and backward per sentence."""
    run, updates = flops.run, flops.run.training.max_update
    return {
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
    rows: list[list[Cell]] = []
    for row in part_rows(flops.parts):
        fraction = sum(row.each) * row.alike / sum(flops.batch)
        rows.append([row.name, *millions_per_sentence(row.each, flops), f"{fraction:.1%}"])
        rows += [[f"  {name}", *millions_per_sentence(it, flops), ""] for name, it in row.inner]
    return Table(
        columns=("part", "forward", "backward", "share"),
        rows=[*rows, ["all", *millions_per_sentence(flops.batch, flops), "100.0%"]],
        shared_precision=("forward", "backward"),
        right_align=("share",),
        caption=f"million operations per sentence of {flops.tokens:,} tokens; only matrix "
        f"products and convolutions count, a multiplication and an addition as two",
    )


def millions_per_sentence(part: PassFlops, flops: Flops) -> list[float]:
    """Million FLOPs per sentence, forward and backward."""
    return [operations / flops.sentences / MILLION for operations in part]


def part_rows(parts: Mapping[str, PassFlops]) -> Iterator[PartRow]:
    """One row per part, or per sequence of equal layers."""
    for layers in group_layers(parts).values():
        for _, group in groupby(layers, key=lambda layer: (layer.each, layer.inner)):
            first, *others = group
            if not others:
                yield first
                continue
            start, end = first.name.replace(" layer ", " layers "), others[-1].name.split()[-1]
            yield first._replace(name=f"{start} to {end}, each", alike=1 + len(others))


def group_layers(parts: Mapping[str, PassFlops]) -> dict[str, list[PartRow]]:
    """Stack -> its layers with their parts; every other part is a group."""
    groups: dict[str, dict[str, PartRow]] = {}
    for name, flops in parts.items():
        match = LAYER.fullmatch(name)
        if not match:
            groups[name] = {name: PartRow(name or "between the parts", flops, 1)}
            continue
        stack, number, inner = match.group("stack", "number", "inner")
        layers = groups.setdefault(stack, {})
        layer_name = f"{stack.removesuffix('.layers')} layer {int(number) + 1}"
        layer = layers.get(number, PartRow(layer_name, PassFlops(0, 0), 1))
        total = PassFlops(*(a + b for a, b in zip(layer.each, flops, strict=True)))
        inner_parts = (*layer.inner, (inner[1:], flops)) if inner else layer.inner
        layers[number] = PartRow(layer_name, total, 1, inner_parts)
    return {name: list(layers.values()) for name, layers in groups.items()}

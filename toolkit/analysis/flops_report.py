"""toolkit-inspect --flops: FLOPs of a layer, an update and a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.analysis.flops import BERT_VOCABULARY, Flops, PassFlops, count_flops
from toolkit.checkpoints import manifest
from toolkit.checkpoints.load import STATE, read_config, read_json
from toolkit.common.errors import ToolkitError
from toolkit.config.columns import format_columns
from toolkit.config.commands.inspect import FlopsConfig
from toolkit.config.run import RunConfig
from toolkit.data.storage.corpora import Corpora
from toolkit.models.interface import Sizes
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Cell, Table
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
    listed = manifest.read(folder)
    state = read_json(folder / STATE) if STATE in listed["files"] else {}
    return count_flops(
        run, sizes, ranks=int(state.get("ranks", 1)), completed_updates=listed.get("update")
    )


def run_flops(run: RunConfig, c: FlopsConfig) -> Flops:
    """FLOPs of a run given by options; the vocabulary size may come from the data."""
    if not run.data.dirs:
        return count_flops(run, Sizes(tokens=c.vocabulary_size or BERT_VOCABULARY))
    if c.vocabulary_size:
        raise ToolkitError(
            f"--vocabulary-size cannot be combined with data, which has a vocabulary: "
            f"{' '.join(run.data.dirs)}."
        )
    return count_flops(run, to_sizes(Corpora.open(*run.data.dirs).all))


def print_flops(found: Flops, output: Output) -> None:
    """Print the table of parts, and the cost of an update and of the run."""
    for name, both in found.parts.items():
        each = {key: value / found.sentences for key, value in both._asdict().items()}
        output.write("part", {"part": name, **each})
    output.write("flops", flops_record(found))
    flops_table(found).print(output.console)
    print(format_columns(describe_flops(found).items()), file=output.text_stream)


def flops_record(found: Flops) -> dict[str, Any]:
    run = found.run
    return {
        "architecture": run.arch.name,
        "task": run.task.name,
        "symbols": found.sizes["tokens"],
        "sentences": found.sentences,
        "tokens": found.tokens,
        "micro_batches": found.micro_batches,
        "forward": found.batch.forward / found.sentences,
        "backward": found.batch.backward / found.sentences,
        "update": found.update,
        "updates": run.training.max_update,
        "run": None if run.training.max_update is None else found.update * run.training.max_update,
        "done": found.completed_updates,
    }


def describe_flops(found: Flops) -> dict[str, str]:
    """The same as text."""
    told, run = flops_record(found), found.run
    many = f"{found.micro_batches} x " if found.micro_batches > 1 else ""
    known = {
        "model": f"{run.arch.name}, {run.task.name}, {found.sizes['tokens']:,} symbols",
        "update": f"{many}{found.sentences:,} sentences of {found.tokens:,} tokens: "
        f"{found.update:.2e} FLOP forward and backward",
    }
    if found.completed_updates:
        known["so far"] = (
            f"{found.completed_updates:,} updates: {found.completed_updates * found.update:.2e} "
            "FLOP"
        )
    if told["run"]:
        known["run"] = f"{told['updates']:,} updates: {told['run']:.2e} FLOP"
    elif not found.completed_updates:
        known["run"] = "pass --max-update for the total"
    return known


def flops_table(found: Flops) -> Table:
    """Million FLOPs per sentence, with equal layers in one row."""
    cells: list[list[Cell]] = []
    for row in part_rows(found.parts):
        share = sum(row.each) * row.alike / sum(found.batch)
        cells.append([row.name, *millions_per_sentence(row.each, found), f"{share:.1%}"])
        cells += [
            [f"  {name}", *millions_per_sentence(both, found), ""] for name, both in row.inner
        ]
    return Table(
        columns=("part", "forward", "backward", "share"),
        rows=[*cells, ["all", *millions_per_sentence(found.batch, found), "100.0%"]],
        shared_precision=("forward", "backward"),
        right_align=("share",),
        caption=f"million operations per sentence of {found.tokens:,} tokens; only matrix "
        f"products and convolutions count, a multiplication and an addition as two",
    )


def millions_per_sentence(both: PassFlops, found: Flops) -> list[float]:
    """Million FLOPs per sentence, forward and backward."""
    return [operations / found.sentences / MILLION for operations in both]


def part_rows(parts: Mapping[str, PassFlops]) -> Iterator[PartRow]:
    """One row per part, or per sequence of equal layers."""
    for layers in group_layers(parts).values():
        for (each, inner), alike in groupby(layers, key=lambda layer: (layer.each, layer.inner)):
            same = list(alike)
            first, last = same[0].name, same[-1].name.rpartition(" ")[2]
            several = f"{first.replace(' layer ', ' layers ')} to {last}, each"
            yield PartRow(first if len(same) == 1 else several, each, len(same), inner)


def group_layers(parts: Mapping[str, PassFlops]) -> dict[str, list[PartRow]]:
    """Stack -> its layers with their parts; other parts on their own."""
    found: dict[str, dict[str, PartRow]] = {}
    for name, both in parts.items():
        match = LAYER.fullmatch(name)
        if not match:
            found[name] = {name: PartRow(name or "between the parts", both, 1)}
            continue
        stack, number, inner = match.group("stack", "number", "inner")
        layers = found.setdefault(stack, {})
        told = f"{stack.removesuffix('.layers')} layer {int(number) + 1}"
        before = layers.get(number, PartRow(told, PassFlops(0, 0), 1))
        more = ((inner[1:], both),) if inner else ()
        each = PassFlops(*(a + b for a, b in zip(before.each, both, strict=True)))
        layers[number] = PartRow(told, each, 1, (*before.inner, *more))
    return {name: list(layers.values()) for name, layers in found.items()}

"""toolkit-average: a checkpoint with the mean weights of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from toolkit import __version__
from toolkit.checkpoints import manifest
from toolkit.checkpoints.load import (
    MODEL,
    describe_mismatches,
    find_checkpoint,
    read_config,
    write_config,
)
from toolkit.checkpoints.new_directory import check_new_directory
from toolkit.checkpoints.save_folder import SaveFolder, parse_update
from toolkit.checkpoints.tensor_files import read_tensors, write_tensors
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.average import AverageConfig
from toolkit.config.run import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Sizes
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Cell, Table
from toolkit.training.callbacks.checkpointing import read_metric, read_save_reasons


@dataclass(frozen=True)
class AveragedCheckpoint:
    """A verified checkpoint to average."""

    folder: Path
    facts: Mapping[str, Any]
    run: RunConfig
    sizes: Sizes


def average(c: AverageConfig) -> Path:
    """Write the mean of the selected checkpoints and report them."""
    output = Path(c.output)
    check_new_directory(output, "--output")
    with Output(c.json) as told:
        parts = [open_checkpoint(folder) for folder in list_checkpoints(c)]
        for part in parts[1:]:
            check_compatible(parts[0], part)
        mean = average_tensors([part.folder for part in parts])
        newest = max(parts, key=lambda part: part.facts["update"])
        write_average(output, mean, parts, newest)
        print_average(parts, mean, output, told)
    return output


def list_checkpoints(c: AverageConfig) -> list[Path]:
    """The named checkpoints, or the newest of the named save folders, each once."""
    found = [folder for path in c.paths for folder in select_checkpoints(Path(path), c)]
    real: dict[Path, Path] = {}
    for folder in found:
        if folder.resolve() in real:
            raise ToolkitError(
                f"{folder} and {real[folder.resolve()]} are the same checkpoint. Leave one out."
            )
        real[folder.resolve()] = folder
    if len(found) < 2:
        raise ToolkitError(
            f"toolkit-average needs at least two checkpoints, but only {found[0]} is named."
        )
    return found


def select_checkpoints(path: Path, c: AverageConfig) -> list[Path]:
    """The checkpoint at a path, or the newest ones of a save folder."""
    there = [] if (path / manifest.NAME).exists() else SaveFolder(path).checkpoints()
    if c.last is None:
        if there:
            raise ToolkitError(
                f"{path} is a save folder with {len(there)} checkpoints. Name the ones to average, "
                f"or pass --last."
            )
        return [path]
    ends = {folder: "epoch" in (read_save_reasons(folder) or ()) for folder in there}
    wanted = [f for f in there if c.kind == "all" or ends[f] == (c.kind == "epochs")]
    if len(wanted) < c.last:
        kind = {"all": "", "epochs": " at the end of an epoch", "updates": " within epochs"}
        raise ToolkitError(
            f"--last {c.last} requires as many checkpoints{kind[c.kind]}, but {path} has "
            f"{len(wanted)}. Lower --last, or keep more with --keep-last-epochs or "
            f"--keep-interval-updates."
        )
    return wanted[: c.last][::-1]


def open_checkpoint(folder: Path) -> AveragedCheckpoint:
    folder = find_checkpoint(folder)
    return AveragedCheckpoint(folder, manifest.read(folder), *read_config(folder))


def check_compatible(first: AveragedCheckpoint, other: AveragedCheckpoint) -> None:
    """Raise unless architecture, task and tokenizer are equal."""
    for section in ("arch", "task"):
        texts = [json_files.dumps(to_dict(part.run)[section]) for part in (first, other)]
        if texts[0] != texts[1]:
            raise ToolkitError(
                f"checkpoints must have the same {section} to be averaged, but {first.folder} has "
                f"{texts[0]} and {other.folder} {texts[1]}. Leave one out."
            )
    if difference := Tokenizer.load(first.folder).describe_difference(Tokenizer.load(other.folder)):
        raise ToolkitError(
            f"checkpoints must have the same tokenizer to be averaged, but those of {first.folder} "
            f"and {other.folder} differ: {difference}. Leave one out."
        )


def average_tensors(folders: Sequence[Path]) -> dict[str, Tensor]:
    """sum_k w_k / K, summed in float64; integer tensors must be equal."""
    first = read_tensors(folders[0] / MODEL)
    sums = {name: t.double() if t.is_floating_point() else t for name, t in first.items()}
    for folder in folders[1:]:
        tensors = read_tensors(folder / MODEL)
        problems = describe_mismatches(tensors, first)
        for name in sums.keys() & tensors.keys():
            if sums[name].is_floating_point() and not problems:
                sums[name] += tensors[name]
            elif not problems and not torch.equal(sums[name], tensors[name]):
                problems = [f"{name} is not floating-point and differs"]
        if problems:
            raise ToolkitError(
                f"checkpoints must have the same tensors to be averaged, but of {folder} and "
                f"{folders[0]} {'; '.join(problems)}. Leave one out."
            )
    return {
        name: (total / len(folders)).to(first[name].dtype) if total.is_floating_point() else total
        for name, total in sums.items()
    }


def write_average(
    output: Path,
    mean: Mapping[str, Tensor],
    parts: Sequence[AveragedCheckpoint],
    newest: AveragedCheckpoint,
) -> None:
    def fill(folder: Path) -> None:
        write_tensors(folder / MODEL, mean)
        write_config(folder, newest.run, newest.sizes)
        Tokenizer.load(newest.folder).save(folder)

    facts = {
        "update": newest.facts["update"],
        "epoch": newest.facts["epoch"],
        "reasons": ["average"],
        "averaged": [str(part.folder) for part in parts],
        "versions": {"toolkit": __version__, "torch": torch.__version__},
    }
    SaveFolder(output.parent).write(output.name, fill, facts)


def print_average(
    parts: Sequence[AveragedCheckpoint], mean: Mapping[str, Tensor], output: Path, told: Output
) -> None:
    """Print one row per checkpoint, with the metric of its latest validation."""
    metric = parts[-1].run.training.best_metric
    rows: list[list[Cell]] = []
    for part in parts:
        epoch, update, reasons = (part.facts[key] for key in ("epoch", "update", "reasons"))
        figure = read_metric(part.folder, metric) if parse_update(part.folder) >= 0 else None
        rows.append([str(part.folder), epoch, update, ", ".join(reasons), figure])
        place = {"checkpoint": str(part.folder), "epoch": epoch, "update": update}
        told.write("averaged", {**place, "reasons": reasons, metric: figure})
    numbers = sum(tensor.numel() for tensor in mean.values())
    told.write("end", {"output": str(output), "checkpoints": len(parts), "parameters": numbers})
    columns = ("checkpoint", "epoch", "update", "reasons", metric)
    Table(columns=columns, rows=rows).print(told.console)
    told.console.print(
        f"mean of {len(parts)} checkpoints, {numbers:,} parameters, written to {output}",
        highlight=False,
        soft_wrap=True,
    )

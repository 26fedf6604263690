"""toolkit-average: a checkpoint with the mean weights of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from toolkit.checkpoints.load import (
    MODEL,
    check_finite,
    find_checkpoint,
    list_mismatches,
    read_config,
    write_model,
)
from toolkit.checkpoints.save_folder import Manifest, SaveFolder, check_new_folder, read_manifest
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common.errors import ToolkitError
from toolkit.common.files import check_distinct_files
from toolkit.config.command import MANIFEST
from toolkit.config.commands.checkpoints import AverageConfig
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import diff_configs, to_dict
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Sizes
from toolkit.reporting.console import Output
from toolkit.reporting.tables import Cell, Table
from toolkit.training.callbacks.checkpointing import read_save_reasons


@dataclass(frozen=True)
class AveragedCheckpoint:
    """A verified checkpoint to average."""

    folder: Path
    facts: Manifest
    run: RunConfig
    sizes: Sizes


def average(c: AverageConfig) -> Path:
    """Write the mean of the selected checkpoints and report them."""
    output = Path(c.output)
    check_new_folder(output, "--output")
    with Output(c.json) as report:
        folders = [find_checkpoint(folder) for folder in list_checkpoints(c)]
        checkpoints = [AveragedCheckpoint(f, read_manifest(f), *read_config(f)) for f in folders]
        for checkpoint in checkpoints[1:]:
            check_compatible(checkpoints[0], checkpoint)
        if any(checkpoint.facts.base for checkpoint in checkpoints):
            raise ToolkitError(
                "checkpoints of adapters cannot be averaged: the mean of two products is none. "
                "Merge them first: toolkit-convert export, then toolkit-convert import."
            )
        mean = average_tensors([checkpoint.folder for checkpoint in checkpoints])
        newest = max(checkpoints, key=lambda checkpoint: checkpoint.facts.update)
        write_model(
            output,
            mean,
            run=newest.run,
            sizes=newest.sizes,
            tokenizer=Tokenizer.load(newest.folder),
            facts={
                "update": newest.facts.update,
                "epoch": newest.facts.epoch,
                "reasons": ["average"],
                "averaged": [str(checkpoint.folder) for checkpoint in checkpoints],
            },
        )
        print_average(checkpoints, mean, output, report)
    return output


def list_checkpoints(c: AverageConfig) -> list[Path]:
    """The named checkpoints, or the newest of the named save folders, each once."""
    folders = [folder for path in c.paths for folder in select_checkpoints(Path(path), c)]
    check_distinct_files({f"checkpoint {n}": folder for n, folder in enumerate(folders, 1)})
    if len(folders) < 2:
        raise ToolkitError(f"Name at least two checkpoints to average; only {folders[0]} is named.")
    return folders


def select_checkpoints(path: Path, c: AverageConfig) -> list[Path]:
    """The checkpoint at a path, or the newest ones of a save folder."""
    saved = [] if (path / MANIFEST).exists() else SaveFolder(path).checkpoints()
    if c.last is None:
        if saved:
            raise ToolkitError(
                f"{path} is a save folder with {len(saved)} checkpoints. Name the ones to average, "
                f"or pass --last."
            )
        return [path]
    if c.kind != "all":
        at_epoch_end = c.kind == "epochs"
        saved = [f for f in saved if ("epoch" in (read_save_reasons(f) or ())) == at_epoch_end]
    if len(saved) < c.last:
        kind = {"all": "", "epochs": " at the end of an epoch", "updates": " within epochs"}
        raise ToolkitError(
            f"--last {c.last} requires as many checkpoints{kind[c.kind]}, but {path} has "
            f"{len(saved)}. Lower --last, or keep more with --keep-last-epochs or "
            f"--keep-interval-updates."
        )
    return saved[: c.last][::-1]


def check_compatible(first: AveragedCheckpoint, other: AveragedCheckpoint) -> None:
    """Raise unless architecture, task and tokenizer are equal."""
    for section in ("arch", "task"):
        one, two = ({section: to_dict(checkpoint.run)[section]} for checkpoint in (first, other))
        if differing := diff_configs(one, two):
            options = "; ".join(f"{name} is {a!r} and {b!r}" for name, (a, b) in differing.items())
            raise ToolkitError(
                f"checkpoints must have the same {section} to be averaged, but in {first.folder} "
                f"and {other.folder} {options}. Leave one out."
            )
    if difference := Tokenizer.load(first.folder).describe_difference(Tokenizer.load(other.folder)):
        raise ToolkitError(
            f"checkpoints must have the same tokenizer to be averaged, but those of {first.folder} "
            f"and {other.folder} differ: {difference}. Leave one out."
        )


def average_tensors(folders: Sequence[Path]) -> dict[str, Tensor]:
    """sum_k w_k / K, summed in float64; integer tensors must be equal."""
    first = read_tensors(folders[0] / MODEL)
    check_finite(folders[0] / MODEL, first.items())
    sums = {name: t.double() if t.is_floating_point() else t for name, t in first.items()}
    for folder in folders[1:]:
        tensors = read_tensors(folder / MODEL)
        check_finite(folder / MODEL, tensors.items())
        found = list_mismatches(tensors, first)
        problems = [f"{kind}: {names}" for kind, names in found.items()]
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


def print_average(
    checkpoints: Sequence[AveragedCheckpoint],
    mean: Mapping[str, Tensor],
    output: Path,
    report: Output,
) -> None:
    """Print one row per checkpoint."""
    columns, rows = ["checkpoint", "epoch", "update", "reasons"], list[list[Cell]]()
    for checkpoint in checkpoints:
        folder, facts = str(checkpoint.folder), checkpoint.facts
        record = {"checkpoint": folder, "epoch": facts.epoch, "update": facts.update}
        report.write("averaged", {**record, "reasons": facts.reasons})
        rows.append([folder, facts.epoch, facts.update, ", ".join(facts.reasons)])
    Table(columns=columns, rows=rows).print(report.console)
    count = sum(tensor.numel() for tensor in mean.values())
    report.write(
        "end", {"output": str(output), "checkpoints": len(checkpoints), "parameters": count}
    )
    report.print_line(
        f"mean of {len(checkpoints)} checkpoints, {count:,} parameters, written to {output}"
    )

"""Mismatches that prevent a conversion, reported in one table and one error."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.conversion.tensor_mapping import Shape
from toolkit.reporting.plain_text import Console
from toolkit.reporting.tables import Table

MAX_ROWS = 50
WEIGHTS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class Mismatch(NamedTuple):
    """A setting or tensor that differs from what the model requires."""

    kind: str
    where: str
    found: str
    required: str


def check_none(source: object, mismatches: Sequence[Mismatch]) -> None:
    """Print the mismatches and raise a ToolkitError if there are any."""
    if mismatches:
        report_mismatches(source, mismatches)


def report_mismatches(source: object, mismatches: Sequence[Mismatch]) -> NoReturn:
    """Print the table of mismatches and raise a ToolkitError."""
    rows, more = [list(mismatch) for mismatch in mismatches[:MAX_ROWS]], len(mismatches) - MAX_ROWS
    note = f"and {more:,} more" if more > 0 else ""
    Table(columns=Mismatch._fields, rows=rows, note=note).print(Console(file=sys.stderr))
    kinds = list(dict.fromkeys(mismatch.kind for mismatch in mismatches))
    raise ToolkitError(
        f"{source} cannot be converted without loss: {len(mismatches)} "
        f"{'mismatch' if len(mismatches) == 1 else 'mismatches'} ({', '.join(kinds)}), see the "
        f"table. Nothing was written."
    )


def compare_tensors(
    tensors: Mapping[str, Tensor], required: Mapping[str, Shape], file: str
) -> list[Mismatch]:
    """Missing, misshapen and extra tensors, and those that are not finite numbers."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    missing = [name for name in required if name not in shapes]
    misshapen = [name for name in required if name in shapes and shapes[name] != required[name]]
    extra = [name for name in shapes if name not in required]
    unusable = {
        name: problem
        for name in required
        if shapes.get(name) == required[name] and (problem := find_problem(tensors[name]))
    }
    return [
        Mismatch(
            f"{kind} tensor",
            f"{file}: {name}",
            format_shape(shapes.get(name)),
            format_shape(required.get(name)),
        )
        for kind, names in (("missing", missing), ("misshapen", misshapen), ("extra", extra))
        for name in names
    ] + [
        Mismatch("unusable tensor", f"{file}: {name}", problem, "finite float32, float16, ...")
        for name, problem in unusable.items()
    ]


def find_problem(tensor: Tensor) -> str:
    """What prevents the use of a tensor as a weight; empty if nothing does."""
    if tensor.dtype not in WEIGHTS:
        return str(tensor.dtype).removeprefix("torch.")
    return "" if tensor.isfinite().all() else "NaN or infinity"


def is_equal(tensor: Tensor, original: Tensor) -> bool:
    """Whether a tied tensor is as the original."""
    return tensor.dtype == original.dtype and torch.equal(tensor, original)


def compare_layers(where: str, layers: object, tensors: Mapping[str, Tensor]) -> list[Mismatch]:
    """A mismatch if a setting gives more layers than the tensors' names have numbers."""
    numbers = {part for name in tensors for part in name.split(".") if part.isdecimal()}
    if isinstance(layers, int) and layers > len(numbers):
        return [Mismatch("setting", where, str(layers)[:20], f"tensors of {len(numbers)} layers")]
    return []


def format_shape(shape: Shape | None) -> str:
    """A shape as text, such as 768 x 768; a dash for None."""
    return "-" if shape is None else " x ".join(map(str, shape)) or "one number"

"""Mismatches that prevent a conversion, reported in one table and one error."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.conversion.tensor_mapping import Shape
from toolkit.reporting.plain_text import Console
from toolkit.reporting.tables import Table


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
    rows = [list(mismatch) for mismatch in mismatches]
    Table(columns=Mismatch._fields, rows=rows).print(Console(file=sys.stderr))
    kinds = list(dict.fromkeys(mismatch.kind for mismatch in mismatches))
    raise ToolkitError(
        f"{source} cannot be converted without loss: {len(mismatches)} "
        f"{'mismatch' if len(mismatches) == 1 else 'mismatches'} ({', '.join(kinds)}), see the "
        f"table. Nothing was written."
    )


def compare_tensors(
    tensors: Mapping[str, Tensor], required: Mapping[str, Shape], file: str
) -> list[Mismatch]:
    """Missing, misshapen and extra tensors."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    missing = [name for name in required if name not in shapes]
    misshapen = [name for name in required if name in shapes and shapes[name] != required[name]]
    extra = [name for name in shapes if name not in required]
    return [
        Mismatch(
            f"{kind} tensor",
            f"{file}: {name}",
            format_shape(shapes.get(name)),
            format_shape(required.get(name)),
        )
        for kind, names in (("missing", missing), ("misshapen", misshapen), ("extra", extra))
        for name in names
    ]


def format_shape(shape: Shape | None) -> str:
    """A shape as text, such as 768 x 768; a dash for None."""
    return "-" if shape is None else " x ".join(map(str, shape)) or "one number"

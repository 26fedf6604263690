"""Mismatches that prevent a conversion, reported in one table and one error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from rich.console import Console
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.conversion.tensor_mapping import Shape
from toolkit.reporting.tables import Table


class Mismatch(NamedTuple):
    """A setting or tensor that differs from what the model requires."""

    kind: str
    where: str
    found: str
    needed: str


def check_none(source: object, mismatches: Sequence[Mismatch]) -> None:
    """Print the mismatches and raise a ToolkitError if there are any."""
    if mismatches:
        report_mismatches(source, mismatches)


def report_mismatches(source: object, mismatches: Sequence[Mismatch]) -> NoReturn:
    rows = [list(mismatch) for mismatch in mismatches]
    Table(columns=Mismatch._fields, rows=rows).print(Console(file=sys.stderr))
    kinds = list(dict.fromkeys(mismatch.kind for mismatch in mismatches))
    raise ToolkitError(
        f"{source} cannot be converted without loss: {len(mismatches)} "
        f"{'mismatch' if len(mismatches) == 1 else 'mismatches'} ({', '.join(kinds)}), see the "
        f"table. Nothing was written."
    )


def compare_tensors(
    found: Mapping[str, Tensor], needed: Mapping[str, Shape], file: str
) -> list[Mismatch]:
    """Missing, misshapen and extra tensors."""
    missing = [
        Mismatch("missing tensor", f"{file}: {name}", "-", format_shape(needed[name]))
        for name in needed
        if name not in found
    ]
    misshapen = [
        Mismatch(
            "misshapen tensor", f"{file}: {name}", format_shape(found[name].shape), format_shape(s)
        )
        for name, s in needed.items()
        if name in found and tuple(found[name].shape) != s
    ]
    extra = [
        Mismatch("extra tensor", f"{file}: {name}", format_shape(found[name].shape), "-")
        for name in found
        if name not in needed
    ]
    return [*missing, *misshapen, *extra]


def format_shape(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape)) or "one number"

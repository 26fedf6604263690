"""What keeps a model from being converted: one table of what and where, and one error."""

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
    """A setting or a tensor that is not as it must be."""

    kind: str
    where: str
    found: str
    needed: str


def check_none(source: object, problems: Sequence[Mismatch]) -> None:
    """Raise ToolkitError after showing the problems, if there are any."""
    if problems:
        report_mismatches(source, problems)


def report_mismatches(source: object, problems: Sequence[Mismatch]) -> NoReturn:
    rows = [list(problem) for problem in problems]
    Table(columns=Mismatch._fields, rows=rows).print(Console(file=sys.stderr))
    kinds = list(dict.fromkeys(problem.kind for problem in problems))
    raise ToolkitError(
        f"{source} must hold a model that converts without loss, but has {len(problems)} "
        f"{'problem' if len(problems) == 1 else 'problems'} ({', '.join(kinds)}), see the table. "
        f"Nothing was written."
    )


def compare_tensors(
    found: Mapping[str, Tensor], needed: Mapping[str, Shape], file: str
) -> list[Mismatch]:
    """What is missing, extra or of another shape."""
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

"""What keeps a model from being converted: one table of what and where, and one error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from rich.console import Console as Terminal
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.conversion.tensor_mapping import Shape
from toolkit.reporting.tables import Table


class Problem(NamedTuple):
    """A setting or a tensor that is not as it must be."""

    what: str
    where: str
    found: str
    needed: str


def refuse(source: object, problems: Sequence[Problem]) -> None:
    """Raise ToolkitError after showing the problems, if there are any."""
    if problems:
        show(source, problems)


def show(source: object, problems: Sequence[Problem]) -> NoReturn:
    rows = [list(problem) for problem in problems]
    Table(columns=Problem._fields, rows=rows).print(Terminal(file=sys.stderr))
    kinds = list(dict.fromkeys(problem.what for problem in problems))
    raise ToolkitError(
        f"{source} must hold a model that converts without loss, but has {len(problems)} "
        f"{'problem' if len(problems) == 1 else 'problems'} ({', '.join(kinds)}), see the table. "
        f"Nothing was written."
    )


def tensors(found: Mapping[str, Tensor], needed: Mapping[str, Shape], file: str) -> list[Problem]:
    """What is missing, extra or of another shape."""
    missing = [
        Problem("missing tensor", f"{file}: {name}", "-", shape_text(needed[name]))
        for name in needed
        if name not in found
    ]
    misshapen = [
        Problem("misshapen tensor", f"{file}: {name}", shape_text(found[name].shape), shape_text(s))
        for name, s in needed.items()
        if name in found and tuple(found[name].shape) != s
    ]
    extra = [
        Problem("extra tensor", f"{file}: {name}", shape_text(found[name].shape), "-")
        for name in found
        if name not in needed
    ]
    return [*missing, *misshapen, *extra]


def shape_text(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape)) or "one number"

"""Kernels as numbers by layer, head or channel, and offset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from toolkit.reporting.tables import Cell, Table

MIN_RADIUS = 3  # offsets either side that a table shows on any terminal
NUMBER_WIDTH = 8  # columns of a terminal that one number takes
LABELS_WIDTH = 34  # columns of a terminal for layer, kernel and head


class KernelRows(NamedTuple):
    """One kernel of one layer."""

    layer: int
    """From 1."""
    name: str
    """fixed, query, key, ...; several of one kind in a layer are numbered."""
    by: str
    """What a row is: head or channel."""
    offsets: Sequence[int]
    """j - i, from the query to the key, or to the neighbor in a convolution."""
    mean: Sequence[Sequence[float]]
    """Value of each row and offset; if it depends on the text, the mean over tokens."""
    deviation: Sequence[Sequence[float]] | None
    """Standard deviation over tokens; None if the kernel does not depend on the text."""

    numbers: Sequence[int] = ()
    """Numbers of the heads or channels, from 1; empty for all."""

    def select_heads(self, heads: Sequence[int]) -> KernelRows:
        """Keep only these heads; kernels by channel are unchanged."""
        if self.by != "head":
            return self

        def cut(rows: Sequence[Sequence[float]]) -> list[Sequence[float]]:
            return [rows[head - 1] for head in heads]

        deviation = None if self.deviation is None else cut(self.deviation)
        return self._replace(mean=cut(self.mean), deviation=deviation, numbers=list(heads))

    @property
    def heads(self) -> Sequence[int]:
        return self.numbers or range(1, len(self.mean) + 1)

    def to_record(self) -> dict[str, Any]:
        """The kernel as a JSON event."""
        deviation = None if self.deviation is None else list(self.deviation)
        return {
            "layer": self.layer,
            "kernel": self.name,
            "by": self.by,
            self.by + "s": list(self.heads),
            "offsets": list(self.offsets),
            "mean": list(self.mean),
            "deviation": deviation,
        }

    def crop(self, radius: int) -> KernelRows:
        """Keep only offsets up to `radius`."""
        kept = [place for place, offset in enumerate(self.offsets) if abs(offset) <= radius]

        def cut(rows: Sequence[Sequence[float]]) -> list[list[float]]:
            return [[row[place] for place in kept] for row in rows]

        deviation = None if self.deviation is None else cut(self.deviation)
        offsets = [self.offsets[place] for place in kept]
        return self._replace(offsets=offsets, mean=cut(self.mean), deviation=deviation)


def kernel_table(kernels: Iterable[KernelRows], width: int | None) -> Table:
    """One row per head, one column per offset; distant offsets are omitted if space is short.

    For kernels by channel, the number of channels with their maximum at each offset.
    """
    found = list(kernels)
    radius = max((max(kernel.offsets) for kernel in found), default=0)
    fitting = radius if width is None else (width - LABELS_WIDTH) // NUMBER_WIDTH // 2
    offsets = range(
        -max(MIN_RADIUS, min(radius, fitting)), max(MIN_RADIUS, min(radius, fitting)) + 1
    )
    rows: list[list[Cell]] = []
    for kernel in found:
        shown = kernel.mean if kernel.by == "head" else [count_peaks(kernel)]
        for number, row in zip(kernel.heads, shown, strict=False):
            cells = dict(zip(kernel.offsets, row, strict=True))
            who = str(number) if kernel.by == "head" else "channels"
            rows.append(
                [kernel.layer, kernel.name, who, *(format_number(cells.get(o)) for o in offsets)]
            )
    channels = any(kernel.by == "channel" for kernel in found)
    counted = "; for channels, how many look most at each" if channels else ""
    beyond = radius > max(offsets)
    left_out = f"; offsets beyond {max(offsets)} are left out here" if beyond else ""
    names = [f"{offset:+d}" if offset else "0" for offset in offsets]
    return Table(
        columns=["layer", "kernel", "head", *names],
        rows=rows,
        right_align=names,
        caption=f"what each head adds for a token at each offset{counted}{left_out}",
    )


def format_number(number: float | int | None) -> str:
    return "" if number is None else f"{number:.3f}" if isinstance(number, float) else str(number)


def count_peaks(kernel: KernelRows) -> list[int]:
    """For each offset, the number of rows whose largest absolute value is there."""
    counts = [0] * len(kernel.offsets)
    for row in kernel.mean:
        sizes = [abs(number) for number in row]
        counts[sizes.index(max(sizes))] += 1
    return counts

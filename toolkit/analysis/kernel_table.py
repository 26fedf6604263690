"""Kernels as numbers by layer, head or channel, and offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from toolkit.common.json_files import JsonObject
from toolkit.reporting.tables import Cell, Table

MIN_RADIUS = 3  # shown on any terminal
NUMBER_WIDTH = 8  # characters per number
LABELS_WIDTH = 34  # characters for layer, kernel and head


Rows = Sequence[Sequence[float]]


class KernelRows(NamedTuple):
    """One kernel of one layer."""

    layer: int
    """From 1."""
    name: str
    """fixed, query, key, ...; several of one kind in a layer are numbered."""
    by: Literal["head", "channel"]
    """What a row is."""
    offsets: Sequence[int]
    """j - i, from the query to the key, or to the neighbor in a convolution."""
    mean: Rows
    """Value of each row and offset; if it depends on the text, the mean over tokens."""
    deviation: Rows | None
    """Standard deviation over tokens; None if the kernel does not depend on the text."""
    numbers: Sequence[int] = ()
    """Numbers of the heads or channels, from 1; empty for all."""

    def select_heads(self, heads: Sequence[int]) -> KernelRows:
        """Keep only these heads; kernels by channel are unchanged."""
        if self.by != "head":
            return self
        selected = self._map_rows(lambda rows: [rows[head - 1] for head in heads])
        return selected._replace(numbers=list(heads))

    def crop(self, radius: int) -> KernelRows:
        """Keep only offsets up to `radius`."""
        indices = [index for index, offset in enumerate(self.offsets) if abs(offset) <= radius]
        cropped = self._map_rows(lambda rows: [[row[index] for index in indices] for row in rows])
        return cropped._replace(offsets=[self.offsets[index] for index in indices])

    def _map_rows(self, function: Callable[[Rows], Rows]) -> KernelRows:
        deviation = None if self.deviation is None else function(self.deviation)
        return self._replace(mean=function(self.mean), deviation=deviation)

    @property
    def heads(self) -> Sequence[int]:
        """Numbers of the heads, from 1."""
        return self.numbers or range(1, len(self.mean) + 1)

    def to_record(self) -> JsonObject:
        """The kernel as a JSON event."""
        return {
            "layer": self.layer,
            "kernel": self.name,
            "by": self.by,
            self.by + "s": list(self.heads),
            "offsets": list(self.offsets),
            "mean": list(self.mean),
            "deviation": None if self.deviation is None else list(self.deviation),
        }


def kernel_table(kernels: Sequence[KernelRows], width: int | None) -> Table:
    """One row per head, one column per offset; distant offsets are omitted if space is short.

    For kernels by channel, the number of channels with their maximum at each offset.
    """
    radius = max((max(kernel.offsets) for kernel in kernels), default=0)
    fitting = radius if width is None else (width - LABELS_WIDTH) // NUMBER_WIDTH // 2
    limit = max(MIN_RADIUS, min(radius, fitting))
    offsets = range(-limit, limit + 1)
    rows: list[list[Cell]] = []
    for kernel in kernels:
        by_head = kernel.by == "head"
        for head, values in zip(
            kernel.heads if by_head else ["channels"],
            kernel.mean if by_head else [count_peaks(kernel)],
            strict=True,
        ):
            cells = dict(zip(kernel.offsets, values, strict=True))
            numbers = [format_number(cells.get(offset)) for offset in offsets]
            rows.append([kernel.layer, kernel.name, str(head), *numbers])
    by_channel = any(kernel.by == "channel" for kernel in kernels)
    peaks = "; for channels, the number with their maximum at each offset" if by_channel else ""
    omitted = f"; offsets beyond {limit} are omitted" if radius > limit else ""
    names = [f"{offset:+d}" if offset else "0" for offset in offsets]
    return Table(
        columns=["layer", "kernel", "head", *names],
        rows=rows,
        right_align=names,
        caption=f"value that each head adds at each offset{peaks}{omitted}",
    )


def format_number(number: float | int | None) -> str:
    """A cell of the table: three decimals for floats, empty for None."""
    return "" if number is None else f"{number:.3f}" if isinstance(number, float) else str(number)


def count_peaks(kernel: KernelRows) -> list[int]:
    """For each offset, the number of rows whose largest absolute value is there."""
    counts = [0] * len(kernel.offsets)
    for row in kernel.mean:
        magnitudes = [abs(value) for value in row]
        counts[magnitudes.index(max(magnitudes))] += 1
    return counts

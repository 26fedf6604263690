"""Learned kernels as tables and plots: by head as lines over offsets, by channel as a map.

After Figs. 2 and 3 of Chang et al. (2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from toolkit.analysis.plot_style import (
    Figure,
    SubFigure,
    draw_line,
    hide_box,
    new_plot,
    style_colorbar,
)
from toolkit.common.json_files import JsonObject
from toolkit.reporting.tables import Cell, Table

PANEL_WIDTH, PANEL_HEIGHT = 1.25, 0.95  # inches of the panel of one head
MAP_WIDTH, MAP_HEIGHT = 2.4, 4.0  # inches of the map of one layer's channels
LEGEND_HEIGHT, TITLE_HEIGHT = 0.45, 0.3
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

    def select(self, heads: Sequence[int], radius: int) -> KernelRows:
        """Offsets up to `radius` of these heads, if any are named, or of all channels."""
        numbers = list(heads) if heads and self.by == "head" else list(self.numbers)
        rows, kept = [it - 1 for it in numbers] or slice(None), np.abs(self.offsets) <= radius
        mean = np.array(self.mean)[rows][:, kept].tolist()
        deviation = self.deviation and np.array(self.deviation)[rows][:, kept].tolist()
        offsets = np.array(self.offsets)[kept].tolist()
        return self._replace(offsets=offsets, mean=mean, deviation=deviation, numbers=numbers)

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
            numbers = [cells.get(offset, "") for offset in offsets]
            texts = [f"{it:.3f}" if isinstance(it, float) else str(it) for it in numbers]
            rows.append([kernel.layer, kernel.name, str(head), *texts])
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


def count_peaks(kernel: KernelRows) -> list[int]:
    """For each offset, the number of rows whose largest absolute value is there."""
    peaks = np.abs(kernel.mean).argmax(1)
    counts: list[int] = np.bincount(peaks, minlength=len(kernel.offsets)).tolist()
    return counts


def draw_kernels(checkpoints: Mapping[str, Sequence[KernelRows]]) -> Figure:
    """One block per checkpoint, one above the other."""
    sizes = [block_size(kernels) for kernels in checkpoints.values()]
    heights = [height for _, height in sizes]
    fig = new_plot(max(4.5, *(width for width, _ in sizes)), sum(heights))
    blocks: Any = fig.subfigures(len(sizes), 1, height_ratios=heights, squeeze=False)
    for block, (name, kernels) in zip(blocks[:, 0], checkpoints.items(), strict=True):
        if len(checkpoints) > 1:
            block.suptitle(name)
        draw_block(block, kernels)
    return fig


def block_size(kernels: Sequence[KernelRows]) -> tuple[float, float]:
    """Width and height in inches."""
    heads = [k for k in kernels if k.by == "head"]
    channels = len(kernels) - len(heads)
    rows, columns = len({k.layer for k in heads}), max((len(k.mean) for k in heads), default=0)
    width = PANEL_WIDTH * columns + 0.6 * bool(heads) + MAP_WIDTH * channels
    height = max(PANEL_HEIGHT * rows + 0.3 + LEGEND_HEIGHT, MAP_HEIGHT * bool(channels))
    return width, height + TITLE_HEIGHT


def draw_block(block: SubFigure, kernels: Sequence[KernelRows]) -> None:
    """Draw the kernels of one checkpoint: heads on the left, channels on the right."""
    sides = [[k for k in kernels if k.by == by] for by in ("head", "channel")]
    present = [side for side in sides if side]
    parts: Any = [block]
    if len(present) > 1:
        parts = block.subfigures(1, 2, width_ratios=[block_size(side)[0] for side in present])
    for part, side in zip(parts, present, strict=True):
        draw = draw_heads if side[0].by == "head" else draw_channels
        draw(part, side)


def draw_heads(block: SubFigure, kernels: Sequence[KernelRows]) -> None:
    """Fig. 2: one row of panels per layer, one column per head, on one scale."""
    layers = sorted({kernel.layer for kernel in kernels})
    names = list(dict.fromkeys(kernel.name for kernel in kernels))
    widest = max(kernels, key=lambda kernel: len(kernel.mean))
    shape = len(layers), len(widest.mean)
    axes = block.subplots(*shape, sharex=True, sharey=True, squeeze=False)
    for kernel in kernels:
        row = axes[layers.index(kernel.layer)]
        index = names.index(kernel.name)
        for head, mean in enumerate(kernel.mean):
            band = None
            if kernel.deviation is not None:
                spread = np.array(kernel.deviation[head])
                band = (mean - spread).tolist(), (mean + spread).tolist()
            draw_line(row[head], kernel.offsets, mean, index, band, label=kernel.name, markersize=2)
    for ax in axes.flat:
        ax.axhline(0, color="#999999", linewidth=0.6, zorder=0)
        ax.axvline(0, color="#dddddd", linewidth=0.6, zorder=0)
        hide_box(ax)
        ax.tick_params(length=2)
    radius = max(max(kernel.offsets) for kernel in kernels)
    axes[0, 0].set_xticks([-radius, 0, radius])
    for ax, layer in zip(axes[:, 0], layers, strict=True):
        ax.set_ylabel(f"layer {layer}\nvalue")
    for ax, head in zip(axes[0], widest.heads, strict=True):
        ax.set_title(f"head {head}")
    block.supxlabel("offset of the key from the query (tokens)")
    handles = {h.get_label(): h for ax in axes.flat for h in ax.get_lines()}
    averaged = {kernel.name for kernel in kernels if kernel.deviation is not None}
    labels = [f"{name}, mean and deviation" if name in averaged else name for name in names]
    lines = [handles[name] for name in names]
    block.legend(lines, labels, loc="outside upper center", ncols=6, frameon=False)


def draw_channels(block: SubFigure, kernels: Sequence[KernelRows]) -> None:
    """Fig. 3: one row of colors per channel, sorted by next minus previous."""
    axes = block.subplots(1, len(kernels), squeeze=False)[0]
    vmax = max(np.abs(kernel.mean).max() for kernel in kernels)
    for ax, kernel in zip(axes, kernels, strict=True):
        radius = max(kernel.offsets)
        image = ax.imshow(
            sort_channels(kernel),
            aspect="auto",
            cmap="RdBu_r",
            vmin=-vmax,
            vmax=vmax,
            interpolation="nearest",
            extent=(-radius - 0.5, radius + 0.5, len(kernel.mean) + 0.5, 0.5),
        )
        ax.set_title(f"layer {kernel.layer}, {kernel.name}")
        ax.set_xticks([-radius, 0, radius])
        ax.tick_params(length=2)
    axes[0].set_ylabel("channel, sorted by next minus previous")
    block.supxlabel("offset (tokens)")
    bar = block.colorbar(image, ax=list(axes), fraction=0.05, pad=0.03)
    bar.set_label("weight")
    style_colorbar(bar)


def sort_channels(kernel: KernelRows) -> list[Sequence[float]]:
    """Rows sorted by the weight of the next token minus that of the previous one."""
    if 1 not in kernel.offsets:  # a kernel of one tap has no neighbors
        return list(kernel.mean)
    after, before = kernel.offsets.index(1), kernel.offsets.index(-1)
    return sorted(kernel.mean, key=lambda row: row[after] - row[before])

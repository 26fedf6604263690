"""Plots of learned kernels: by head as lines over offsets, by channel as a map.

After Figs. 2 and 3 of Chang et al. (2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.analysis.kernel_table import KernelRows
from toolkit.analysis.plots.style import (
    Axes,
    Figure,
    SubFigure,
    hide_box,
    line_style,
    marked_points,
    new_plot,
    style_colorbar,
)

PANEL_WIDTH, PANEL_HEIGHT = 1.25, 0.95  # inches of the panel of one head
MAP_WIDTH, MAP_HEIGHT = 2.4, 4.0  # inches of the map of one layer's channels
LEGEND_HEIGHT, TITLE_HEIGHT = 0.45, 0.3


def draw_kernels(checkpoints: Mapping[str, Sequence[KernelRows]], title: str) -> Figure:
    """One block per checkpoint, one above the other."""
    sizes = [block_size(kernels) for kernels in checkpoints.values()]
    heights = [height for _, height in sizes]
    fig = new_plot(max(4.5, *(width for width, _ in sizes)), sum(heights))
    if title:
        fig.suptitle(title)
    blocks: Any = fig.subfigures(len(sizes), 1, height_ratios=heights, squeeze=False)
    for block, (name, kernels) in zip(blocks[:, 0], checkpoints.items(), strict=True):
        if len(checkpoints) > 1:
            block.suptitle(name)
        draw_block(block, kernels)
    return fig


def block_size(kernels: Sequence[KernelRows]) -> tuple[float, float]:
    """Width and height in inches."""
    heads, channels = split_heads_and_channels(kernels)
    rows, columns = len({k.layer for k in heads}), max((len(k.mean) for k in heads), default=0)
    width = PANEL_WIDTH * columns + 0.6 * bool(heads) + MAP_WIDTH * len(channels)
    height = max(PANEL_HEIGHT * rows + 0.3 + LEGEND_HEIGHT, MAP_HEIGHT * bool(channels))
    return width, height + TITLE_HEIGHT


def split_heads_and_channels(
    kernels: Sequence[KernelRows],
) -> tuple[list[KernelRows], list[KernelRows]]:
    """Kernels by head, and kernels by channel."""
    return [k for k in kernels if k.by == "head"], [k for k in kernels if k.by == "channel"]


def draw_block(block: SubFigure, kernels: Sequence[KernelRows]) -> None:
    """Draw the kernels of one checkpoint: heads on the left, channels on the right."""
    heads, channels = split_heads_and_channels(kernels)
    if not (heads and channels):
        draw_heads(block, heads) if heads else draw_channels(block, channels)
        return
    columns = max(len(k.mean) for k in heads)
    widths = [PANEL_WIDTH * columns + 0.6, MAP_WIDTH * len(channels)]
    sides: Any = block.subfigures(1, 2, width_ratios=widths)
    draw_heads(sides[0], heads)
    draw_channels(sides[1], channels)


def draw_heads(block: SubFigure, kernels: Sequence[KernelRows]) -> None:
    """Fig. 2: one row of panels per layer, one column per head, on one scale."""
    layers = sorted({kernel.layer for kernel in kernels})
    names = list(dict.fromkeys(kernel.name for kernel in kernels))
    widest = max(kernels, key=lambda kernel: len(kernel.mean))
    shape = len(layers), len(widest.mean)
    axes = block.subplots(*shape, sharex=True, sharey=True, squeeze=False)
    for kernel in kernels:
        row = axes[layers.index(kernel.layer)]
        for head in range(len(kernel.mean)):
            draw_head(row[head], kernel, head, names.index(kernel.name))
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


def draw_head(ax: Axes, kernel: KernelRows, head: int, index: int) -> None:
    """The kernel of one head, with a band of one deviation if it depends on the text."""
    mean, style = kernel.mean[head], line_style(index)
    ax.plot(
        kernel.offsets,
        mean,
        label=kernel.name,
        linewidth=1.2,
        color=style.color,
        linestyle=style.linestyle,
        marker=style.marker,
        markersize=2,
        markevery=marked_points(len(mean), index),
    )
    if kernel.deviation is not None:
        pairs = list(zip(mean, kernel.deviation[head], strict=True))
        lower, upper = [m - s for m, s in pairs], [m + s for m, s in pairs]
        ax.fill_between(kernel.offsets, lower, upper, color=style.color, alpha=0.15, lw=0)


def draw_channels(block: SubFigure, kernels: Sequence[KernelRows]) -> None:
    """Fig. 3: one row of colors per channel, sorted by next minus previous."""
    axes = block.subplots(1, len(kernels), squeeze=False)[0]
    vmax = max(abs(number) for kernel in kernels for row in kernel.mean for number in row)
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

"""Plots of learned kernels: by head as lines over offsets, by channel as a map.

After figures 2 and 3 of Chang et al. (2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.analysis.kernel_table import KernelRows
from toolkit.analysis.plots.style import line_style, new_figure

PANEL_WIDTH, PANEL_HEIGHT = 1.25, 0.95  # inches, of one head's
MAP_WIDTH, MAP_HEIGHT = 2.4, 4.0  # inches, of one layer's channels
LEGEND_HEIGHT, TITLE_HEIGHT = 0.45, 0.3


def draw_kernels(checkpoints: Mapping[str, Sequence[KernelRows]], title: str) -> Any:
    """One block per checkpoint, one above the other."""
    sizes = [block_size(kernels) for kernels in checkpoints.values()]
    heights = [height for _, height in sizes]
    figure = new_figure(max(4.5, *(width for width, _ in sizes)), sum(heights))
    if title:
        figure.suptitle(title)
    blocks = figure.subfigures(len(sizes), 1, height_ratios=heights, squeeze=False)[:, 0]
    for block, (name, kernels) in zip(blocks, checkpoints.items(), strict=True):
        if len(checkpoints) > 1:
            block.suptitle(name, fontsize=9)
        draw_block(block, kernels)
    return figure


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


def draw_block(block: Any, kernels: Sequence[KernelRows]) -> None:
    heads, channels = split_heads_and_channels(kernels)
    if not (heads and channels):
        draw_heads(block, heads) if heads else draw_channels(block, channels)
        return
    columns = max(len(k.mean) for k in heads)
    widths = [PANEL_WIDTH * columns + 0.6, MAP_WIDTH * len(channels)]
    left, right = block.subfigures(1, 2, width_ratios=widths)
    draw_heads(left, heads)
    draw_channels(right, channels)


def draw_heads(block: Any, kernels: Sequence[KernelRows]) -> None:
    """Figure 2: one row of panels per layer, one column per head, on one scale."""
    layers = sorted({kernel.layer for kernel in kernels})
    names = list(dict.fromkeys(kernel.name for kernel in kernels))
    columns = max(len(kernel.mean) for kernel in kernels)
    axes = block.subplots(len(layers), columns, sharex=True, sharey=True, squeeze=False)
    for kernel in kernels:
        for panel, number in zip(
            axes[layers.index(kernel.layer)], range(len(kernel.mean)), strict=False
        ):
            draw_head(panel, kernel, number, names.index(kernel.name))
    for panel in axes.flat:
        panel.axhline(0, color="#999999", linewidth=0.6, zorder=0)
        panel.axvline(0, color="#dddddd", linewidth=0.6, zorder=0)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=7, length=2)
    reach = max(max(kernel.offsets) for kernel in kernels)
    axes[0, 0].set_xticks([-reach, 0, reach])
    for row, layer in zip(axes, layers, strict=True):
        row[0].set_ylabel(f"layer {layer}", fontsize=8)
    widest = max(kernels, key=lambda kernel: len(kernel.mean))
    for number, panel in zip(widest.heads, axes[0], strict=True):
        panel.set_title(f"head {number}", fontsize=8)
    block.supxlabel("offset of the key from the query, in tokens", fontsize=8)
    handles = {h.get_label(): h for panel in axes.flat for h in panel.get_lines()}
    of_text = {kernel.name for kernel in kernels if kernel.deviation is not None}
    explained = [f"{name}, mean and deviation" if name in of_text else name for name in names]
    shown = [handles[name] for name in names]
    block.legend(shown, explained, loc="outside upper center", ncols=6, frameon=False, fontsize=8)


def draw_head(panel: Any, kernel: KernelRows, number: int, index: int) -> None:
    """The kernel of one head, with a band of one deviation if it depends on the text."""
    mean, colors = kernel.mean[number], line_style(index)
    panel.plot(kernel.offsets, mean, label=kernel.name, linewidth=1.3, **colors)
    if kernel.deviation is not None:
        spread = kernel.deviation[number]
        below = [m - s for m, s in zip(mean, spread, strict=True)]
        above = [m + s for m, s in zip(mean, spread, strict=True)]
        panel.fill_between(kernel.offsets, below, above, color=colors["color"], alpha=0.2, lw=0)


def draw_channels(block: Any, kernels: Sequence[KernelRows]) -> None:
    """Figure 3: one row of colors per channel, sorted by next minus previous."""
    axes = block.subplots(1, len(kernels), squeeze=False)[0]
    largest = max(abs(number) for kernel in kernels for row in kernel.mean for number in row)
    for panel, kernel in zip(axes, kernels, strict=True):
        reach = max(kernel.offsets)
        image = panel.imshow(
            sort_channels(kernel),
            aspect="auto",
            cmap="RdBu_r",
            vmin=-largest,
            vmax=largest,
            interpolation="nearest",
            extent=(-reach - 0.5, reach + 0.5, len(kernel.mean) + 0.5, 0.5),
        )
        panel.set_title(f"layer {kernel.layer}, {kernel.name}", fontsize=8)
        panel.set_xticks([-reach, 0, reach])
        panel.tick_params(labelsize=7, length=2)
    axes[0].set_ylabel("channel, sorted by next minus previous", fontsize=8)
    block.supxlabel("offset, in tokens", fontsize=8)
    bar = block.colorbar(image, ax=list(axes), fraction=0.05, pad=0.03)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)


def sort_channels(kernel: KernelRows) -> list[Sequence[float]]:
    """Rows sorted by the weight of the next token minus that of the previous one."""
    at = {offset: place for place, offset in enumerate(kernel.offsets)}
    if 1 not in at:  # a kernel of one tap has no neighbors
        return list(kernel.mean)
    return sorted(kernel.mean, key=lambda row: row[at[1]] - row[at[-1]])

"""Style of all plots: colors, empty figures, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError

# Distinguishable for color-blind readers (Okabe & Ito 2008); then line styles differ.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")
DOTS_PER_INCH = 160
MAX_PIXELS = 8000  # of a side; larger pictures get fewer dots per inch


def new_figure(width: float, height: float, *, constrained: bool = True) -> Any:
    """An empty figure without window or global state; sizes in inches.

    `constrained` lets matplotlib arrange labels and legends.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ToolkitError(
            "toolkit-plot requires matplotlib, which is not installed. "
            "Run pip install 'toolkit-seq[plot]'."
        ) from error
    return Figure(figsize=(width, height), layout="constrained" if constrained else None)


def line_style(index: int) -> dict[str, str]:
    """Color and line style of the line with this index."""
    return {
        "color": COLORS[index % len(COLORS)],
        "linestyle": LINE_STYLES[index // len(COLORS) % len(LINE_STYLES)],
    }


def save_figure(figure: Any, output: str) -> None:
    dots = min(DOTS_PER_INCH, MAX_PIXELS / max(figure.get_size_inches()))
    try:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(output, dpi=dots)
    except OSError as error:
        raise ToolkitError(
            f"--output must be writable, but {output} is not: {error.strerror}. Choose "
            f"another file."
        ) from error

"""What all pictures share: colors that the color-blind tell apart, an empty figure, a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError

# Distinct for the color-blind too (Okabe & Ito 2008), with lines that differ when they run out.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")
DOTS_PER_INCH = 160
MAX_PIXELS = 8000  # of a side; larger pictures get fewer dots per inch


def new_figure(width: float, height: float, *, constrained: bool = True) -> Any:
    """An empty picture, without any window or global state; sizes in inches.

    `arranged` leaves it to matplotlib to find room for labels and legends.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ToolkitError(
            "drawing needs matplotlib, but that is not installed. "
            "Run pip install 'toolkit-seq[plot]'."
        ) from error
    return Figure(figsize=(width, height), layout="constrained" if constrained else None)


def line_style(index: int) -> dict[str, str]:
    """Color and kind of the line with this number."""
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
            f"--output must be writable, but {output}: {error.strerror}. Choose another file."
        ) from error

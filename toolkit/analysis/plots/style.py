"""Style of all plots: colors, empty plots, files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.common.errors import ToolkitError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis as Axis
    from matplotlib.colorbar import Colorbar as Colorbar
    from matplotlib.figure import Figure as Figure
    from matplotlib.figure import SubFigure as SubFigure
    from matplotlib.image import AxesImage as AxesImage
else:  # matplotlib is optional and slow to import
    Axes = AxesImage = Axis = Colorbar = Figure = SubFigure = object

# Distinguishable for color-blind readers (Okabe & Ito 2008); then line styles differ.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")
DOTS_PER_INCH = 160
MAX_PIXELS = 8000  # per side; larger plots get fewer dots per inch


def new_plot(width: float, height: float, *, constrained: bool = True) -> Figure:
    """An empty plot without window or global state; sizes in inches.

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


def line_style(index: int) -> tuple[str, str]:
    """Color and line style of the line with this index."""
    return COLORS[index % len(COLORS)], LINE_STYLES[index // len(COLORS) % len(LINE_STYLES)]


def hide_box(ax: Axes) -> None:
    """Keep only the left and bottom spines."""
    ax.spines[["top", "right"]].set_visible(False)


def style_colorbar(bar: Colorbar) -> None:
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)


def save_plot(fig: Figure, output: str) -> None:
    """Write the plot in the format of the file's ending.

    PDFs have TrueType fonts: many publishers reject matplotlib's default, Type 3.
    """
    import matplotlib

    dpi = min(DOTS_PER_INCH, MAX_PIXELS / max(fig.get_size_inches()))
    try:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
            fig.savefig(output, dpi=dpi)
    except OSError as error:
        raise ToolkitError(
            f"--output must be writable, but {output} is not: {error.strerror}. Choose "
            f"another file."
        ) from error

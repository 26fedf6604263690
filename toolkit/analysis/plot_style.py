"""Style of all plots: lines, fonts, sizes, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.common.errors import ToolkitError
from toolkit.common.files import check_output, write_output
from toolkit.config.commands.plot import PlotOptions
from toolkit.reporting.console import Output

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis as Axis
    from matplotlib.colorbar import Colorbar as Colorbar
    from matplotlib.figure import Figure as Figure, SubFigure as SubFigure
else:  # matplotlib is optional and slow to import
    Axes = Axis = Colorbar = Figure = SubFigure = object

# Distinguishable for color-blind readers (Okabe & Ito 2008). The numbers of colors, dashes and
# markers have no common divisor, so that the first lines differ in all three.
COLORS = ("#0072B2", "#E69F00", "#000000", "#D55E00", "#56B4E9", "#009E73", "#CC79A7")
DASHES = ((), (5.0, 1.6), (1.2, 1.4), (5.0, 1.6, 1.2, 1.6), (9.0, 2.0))  # in line widths; (): solid
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
HATCHES = ("", "///", "...", "\\\\\\", "xxx")
MARKED_POINTS = 10  # per line, about
MAX_PIXELS = 8000  # per side; larger plots get fewer dots per inch
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SETTINGS = {
    "axes.titlesize": "medium",
    "figure.titlesize": "medium",
    "figure.labelsize": "medium",
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    "legend.fontsize": "small",
    "text.parse_math": False,
    "axes.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}


def line_style(index: int, points: int = 1) -> dict[str, Any]:
    """Color, dashes and marker of the line with this index, which marks about ten of its points."""
    step, dashes = max(1, points // MARKED_POINTS), DASHES[index % len(DASHES)]
    return {
        "color": COLORS[index % len(COLORS)],
        "linestyle": (0, dashes or None),
        "marker": MARKERS[index % len(MARKERS)],
        "markevery": (index % step, step),
    }


def draw_line(
    ax: Axes,
    x: Sequence[int],
    y: Sequence[float],
    index: int,
    band: tuple[Sequence[float], Sequence[float]] | None = None,
    **options: Any,
) -> None:
    """Draw a line in the style of its index, on a band between two edges."""
    style = line_style(index, len(y))
    ax.plot(x, y, **style, linewidth=1.2, **options)
    if band:
        ax.fill_between(x, *band, color=style["color"], alpha=0.15, linewidth=0)


def open_plot(c: PlotOptions) -> Output:
    """The output of the command, once it is certain that the plot can be written."""
    path = Path(c.output_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    check_output(path)
    return Output(c.json)


@contextmanager
def plot_style(c: PlotOptions) -> Iterator[None]:
    """Fonts and lines of the plots that are drawn and saved inside.

    All text is drawn as it is: a dollar sign, such as the tag of the Penn Treebank, is no formula.
    PDFs have TrueType fonts: many publishers reject matplotlib's default, Type 3.
    """
    try:
        import matplotlib
        from matplotlib import font_manager
    except ImportError as error:
        raise ToolkitError(
            "toolkit-plot requires matplotlib, which is not installed. Run pip install "
            "'toolkit-seq[plot]'."
        ) from error
    try:  # matplotlib would silently draw another font
        if c.font_family not in ("serif", "sans-serif", "monospace"):
            font_manager.findfont(c.font_family, fallback_to_default=False)
    except ValueError as error:
        raise ToolkitError(
            f"--font-family must be an installed font, but {c.font_family!r} is not. serif, "
            f"sans-serif, monospace and STIXGeneral (similar to Times) come with matplotlib."
        ) from error
    settings: Any = {"font.family": c.font_family, "font.size": c.font_size, **SETTINGS}
    with matplotlib.rc_context(settings):
        yield


def new_plot(width: float, height: float, *, constrained: bool = True) -> Figure:
    """An empty plot, in inches; `constrained` lets matplotlib arrange labels and legends."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained" if constrained else None)


def hide_box(ax: Axes) -> None:
    """Keep only the left and bottom spines."""
    ax.spines[["top", "right"]].set_visible(False)


def style_colorbar(bar: Colorbar) -> None:
    """A color bar without lines between its colors, which many PDF viewers would show."""
    bar.ax.tick_params(labelsize="small", length=2)
    bar.outline.set_visible(False)
    if bar.solids is not None:
        bar.solids.set(edgecolor="face", rasterized=True)


def write_plot(
    c: PlotOptions, draw: Callable[..., Figure], *values: Any, output: Output | None = None
) -> None:
    """Draw values, and write the plot in the format of the file's ending, which is printed.

    --size applies. Plots with a manual layout scale their texts with it, and place their titles.
    """
    with plot_style(c):
        from matplotlib.text import Text

        fig = draw(*values)
        by_hand = fig.get_layout_engine() is None
        if c.title and not by_hand:
            fig.suptitle(c.title)
        if c.inches:
            width, height = fig.get_size_inches()
            new_width = c.inches[0]
            new_height = c.inches[1] or height * new_width / width
            fig.set_size_inches(new_width, new_height)
            if by_hand:
                scale = min(new_width / width, new_height / height)
                for text in fig.findobj(Text):
                    text.set_fontsize(text.get_fontsize() * scale)
        dpi, content = min(c.dpi, MAX_PIXELS / max(fig.get_size_inches())), BytesIO()
        ending = c.output_file.rpartition(".")[2].lower()
        fig.savefig(content, format=ending, dpi=dpi)
    data = content.getvalue()
    if ending == "svg":  # its comments hold the texts
        data = NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", data.decode()).encode()
    write_output(c.output_file, data)
    if output:
        print(c.output_file, file=output.text_stream)


SUBSETS = {"train": "training", "valid": "validation"}
FRACTIONS = ("accuracy", "precision", "recall", "f1", "rate", "uas", "las", "mfu")  # drawn in %
WORDS = {
    **{"ppl": "perplexity", "lr": "learning rate", "auc": "AUC", "bleu": "BLEU", "chrf": "chrF"},
    **{"f1": "F1", "nll": "NLL", "mfu": "MFU"},
}
RATES = {
    "tokens_per_second": "tokens per second",
    "updates_per_second": "updates per second",
    "peak_memory_gib": "peak memory (GiB)",
    "seconds": "time (seconds)",
}
PARTS = {
    "mlm": "masked tokens",
    "mpm": "positions",
    "rtd": "replaced tokens",
    "oov": "unknown words",
    "ambiguous": "ambiguous words",
}


def label_metric(metric: str) -> tuple[str, float]:
    """`mlm_loss` -> loss of masked tokens (nats), and the factor on drawn values, 100 for %."""
    if metric in RATES:
        return RATES[metric], 1.0
    part, _, kind = metric.rpartition("_")
    name = WORDS.get(kind, kind)
    if part in PARTS:
        name = f"{name} of {PARTS[part]}"
    elif part:
        name = f"{part.replace('_', ' ')} {name}"
    if kind in ("loss", "nll"):
        return f"{name} (nats)", 1.0
    return (f"{name} (%)", 100.0) if kind in FRACTIONS else (name, 1.0)


def label_variants(names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Name of each variant in words, and a title for all if they differ in one option.

    `fixed=true, dynamic=false` -> fixed, no dynamic; `conv_type=span` -> span, of conv type;
    `arch=bert_small`, `arch=bert_tiny` -> small, tiny.
    """
    options = [name.split("=") for name in names if not name.endswith(("=true", "=false"))]
    if 1 < len(names) == len([it for it in options if len(it) == 2 and it[0] == options[0][0]]):
        values = drop_common_words([value for _, value in options])
        return dict(zip(names, values, strict=True)), to_words(options[0][0])
    words = [", ".join(map(label_option, it.split(", "))) for it in drop_common_words(names)]
    return dict(zip(names, words, strict=True)), ""


def drop_common_words(names: Sequence[str]) -> list[str]:
    """`conv_san_add`, `conv_san_none` -> add, none."""
    if any("=" in name for name in names):
        return list(names)
    words = [name.split("_") for name in names]
    while len(words) > 1 and all(len(it) > 1 and it[0] == words[0][0] for it in words):
        words = [it[1:] for it in words]
    return ["_".join(it) for it in words]


def label_option(option: str) -> str:
    """`fixed=false` -> no fixed; `kernel_size=9` -> kernel size 9."""
    key, _, value = option.partition("=")
    if value in ("true", "false"):
        return "no " * (value == "false") + to_words(key)
    return f"{to_words(key)} {value}".strip()


def to_words(name: str) -> str:
    """A name with spaces for underscores."""
    return name.replace("_", " ").strip() or name


def parse_labels(labels: Iterable[str], known: Iterable[str]) -> Mapping[str, str]:
    """Name -> label of `--labels NAME=LABEL`; all names must be known."""
    pairs = {name: label for name, _, label in (text.rpartition("=") for text in labels)}
    names = list(dict.fromkeys(known))
    unknown = [name for name in pairs if name not in names]
    if unknown:
        raise ToolkitError(
            f"--labels must be NAME=LABEL with a name of the plot, but {unknown[0]!r} is none. "
            f"Names: {'; '.join(names)}."
        )
    return pairs

"""Options of toolkit-plot: a config class for each kind of plot."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import (
    MULTI_WORD,
    NO_SPLIT,
    Above,
    AtLeast,
    Limit,
    Options,
    PositiveInt,
    Rate,
    Size,
)
from toolkit.config.sections import DeviceOptions, OutputOptions

ENDINGS = (".png", ".svg", ".pdf")
WIDTHS = {"column": 3.25, "page": 6.75}  # inches, of a paper with two columns
MAX_INCHES = 100


@dataclass(frozen=True, kw_only=True)
class PlotOptions(OutputOptions, title="output"):
    """Options of every kind of plot."""

    output: str = ""
    """File to write: .png, .svg or .pdf. Default: KIND.png."""
    title: str = ""
    """Title above the plot."""
    labels: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """NAME=LABEL: text for a variant, checkpoint, file or metric."""
    size: str = ""
    """Width, or WIDTHxHEIGHT, in inches; column: 3.25 inches wide, page: 6.75. Default: depends on
    the plot."""
    font_family: str = "sans-serif"
    """Font: serif, sans-serif, monospace, STIXGeneral (similar to Times) or any installed one."""
    font_size: Annotated[float, Above(0), Limit(200)] = 9.0
    """Font size in points; numbers and legends are slightly smaller."""
    dpi: Annotated[int, AtLeast(1), Limit(10_000)] = 160
    """Dots per inch, also of images in .svg and .pdf."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(1 <= it <= MAX_INCHES for it in self.inches or () if it is not None):
            raise ToolkitError(
                f"--size must be WIDTH or WIDTHxHEIGHT in inches from 1 to {MAX_INCHES}, or column "
                f"or page, but is {self.size!r}."
            )
        if malformed := [it for it in self.labels if not it.rpartition("=")[0]]:
            raise ToolkitError(f"--labels must be NAME=LABEL, but is {malformed[0]!r}.")
        if not self.output_file.lower().endswith(ENDINGS):
            raise ToolkitError(f"--output must end in .png, .svg or .pdf, but is {self.output!r}.")

    @property
    def output_file(self) -> str:
        """The file to write: --output, or by default one with the name of the kind."""
        return self.output or f"{self.word or 'plot'}.png"

    @property
    def inches(self) -> tuple[float, float | None] | None:
        """Width and height of --size, as `column`, `6.5` or `6.5x3`; None if the plot chooses."""
        width, _, height = self.size.partition("x")
        try:
            inches = WIDTHS.get(width) or float(width), float(height) if height else None
        except ValueError:
            return (math.nan, None) if self.size else None
        return inches


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(
    DeviceOptions,
    title="checkpoints",
    required={"path": "--path is required: a checkpoint or a save folder."},
):
    """Options of plots of trained models."""

    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, for their best checkpoint."""


@dataclass(frozen=True, kw_only=True)
class LayerOptions(Options, title="layers and heads"):
    """Selection of layers and heads to draw."""

    layers: list[PositiveInt] = field(default_factory=list)
    """Layers to draw, from 1, separated by commas. Default: all; of kernels with a row per channel,
    the last."""
    heads: list[PositiveInt] = field(default_factory=list)
    """Heads to draw, from 1, separated by commas. Default: all."""


@dataclass(frozen=True, kw_only=True)
class CurveConfig(
    PlotOptions,
    required={
        "runs": "toolkit-plot curve needs at least one run's save folder, before --labels.",
        "metric": "--metric must name a metric, but is empty.",
    },
    positional="runs",
    word="curve",
):
    """Options of toolkit-plot curve."""

    runs: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Save folders, or folders of them, such as that of a sweep, or files that toolkit-validate
    --all-checkpoints --results-path wrote. Runs that differ only in their seed are drawn as their
    mean."""
    metric: list[str] = field(default_factory=lambda: ["loss"])
    """Metrics, separated by commas, one panel each; panels are wrapped into rows."""
    subset: list[str] = field(default_factory=list)
    """Splits, or groups of items such as phenomena, separated by commas, to draw in one panel each.
    Default: valid, with train for a single variant; of results on items, all and each group."""
    x_axis: Literal["updates", "words"] = "updates"
    """Horizontal axis: updates, or words of the text that the run has seen. By words, the values of
    several seeds are interpolated."""
    band: Literal["deviation", "range", "none"] = "deviation"
    """Band around the mean of several seeds. deviation: one standard deviation; range: minimum to
    maximum."""
    smoothing: Rate = 0.0
    """Weight of the past in an exponential moving average of the training metrics; the raw lines
    remain as pale lines. Validation is not smoothed."""
    log_scale: bool = False
    """Logarithmic scale for the metrics."""
    log_updates: bool = False
    """Logarithmic scale for the updates or words."""


@dataclass(frozen=True, kw_only=True)
class ConfusionConfig(
    PlotOptions,
    required={
        "files": "toolkit-plot confusion needs at least one file that toolkit-validate --json "
        "wrote."
    },
    positional="files",
    word="confusion",
):
    """Options of toolkit-plot confusion."""

    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Files that toolkit-validate --json wrote."""


@dataclass(frozen=True, kw_only=True)
class PairPlotConfig(
    PlotOptions,
    required={
        "files": "toolkit-plot minimal-pairs needs at least one file that toolkit-validate --task "
        "minimal_pairs --results-path wrote."
    },
    positional="files",
    word="minimal-pairs",
):
    """Options of toolkit-plot minimal-pairs."""

    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Results of toolkit-validate --task minimal_pairs (--results-path or --json), or JSON lines
    with UID, linguistics_term and an accuracy per model, such as BLiMP's models_summary.jsonl. Runs
    that differ only in their seed are drawn as their mean."""
    phenomenon: str = ""
    """Draw the paradigms of this phenomenon. Default: all in panels."""


@dataclass(frozen=True, kw_only=True)
class KernelsConfig(CheckpointOptions, LayerOptions, PlotOptions, word="kernels"):
    """Options of toolkit-plot kernels."""

    sentences: str | None = None
    """Text file, one sentence per line. Kernels that depend on the text are averaged over its
    tokens."""
    radius: Size = 16
    """Largest offset to draw, in tokens."""


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(CheckpointOptions, LayerOptions, PlotOptions, word="attention"):
    """Options of toolkit-plot attention."""

    sentence: str = ""
    """Sentence to draw. A second one may follow after [SEP], and [MASK] hides a token. Default: the
    first one of --sentences."""
    sentences: str | None = None
    """Text file, one sentence per line, over which the share of attention near the diagonal is
    averaged."""
    mean_heads: bool = False
    """Draw the mean over each layer's heads."""
    mean: bool = False
    """Draw one map per checkpoint, the mean over its layers and heads, side by side. Several
    checkpoints are always drawn so."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sentence.strip() and not self.sentences:
            raise ToolkitError('toolkit-plot attention needs --sentence "..." or --sentences FILE.')

    @property
    def draws_means(self) -> bool:
        """Whether each checkpoint has one map."""
        return self.mean or len(self.path) > 1


@dataclass(frozen=True, kw_only=True)
class PerturbationConfig(
    CheckpointOptions,
    PlotOptions,
    required={"sentences": "toolkit-plot perturbation needs --sentences FILE."},
    word="perturbation",
):
    """Options of toolkit-plot perturbation."""

    sentences: str = ""
    """Text file, one sentence per line, all of the same words; the first is compared with each of
    the others. Required."""

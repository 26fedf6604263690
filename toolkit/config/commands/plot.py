"""Options of toolkit-plot: a config class for each kind of plot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Options, PositiveInt, Rate
from toolkit.config.option_groups import DeviceOptions, OutputOptions
from toolkit.config.options import MULTI_WORD, NO_SPLIT

ENDINGS = (".png", ".svg", ".pdf")


@dataclass(frozen=True, kw_only=True)
class PlotOptions(OutputOptions, title="output"):
    kind: ClassVar[str]
    """First word after toolkit-plot; the plot's default file name without its ending."""

    output: str = ""
    """File to write, .png, .svg or .pdf. Default: the kind of plot with .png, as in curve.png."""
    title: str = ""
    """Title above the plot."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.output_file.lower().endswith(ENDINGS):
            raise ToolkitError(f"--output must end in .png, .svg or .pdf, but is {self.output!r}.")

    @property
    def output_file(self) -> str:
        return self.output or f"{self.kind}.png"


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
    layers: list[PositiveInt] = field(default_factory=list)
    """Layers to draw, from 1, separated by commas. Default: all; of kernels with a row per channel,
    the last."""
    heads: list[PositiveInt] = field(default_factory=list)
    """Heads to draw, from 1, separated by commas. Default: all."""


@dataclass(frozen=True, kw_only=True)
class CurveConfig(
    PlotOptions,
    required={
        "runs": "toolkit-plot curve needs at least one run's save folder.",
        "metric": "--metric must name a metric, but is empty.",
    },
):
    POSITIONAL: ClassVar[str] = "runs"
    kind = "curve"

    runs: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Save folders, or folders of them, such as that of a sweep. Runs that differ only in their
    seed are drawn as their mean."""
    metric: list[str] = field(default_factory=lambda: ["loss"])
    """Metrics to draw side by side, separated by commas."""
    subset: str = ""
    """Split to draw. Default: valid, and train as well if there is only one configuration."""
    band: Literal["deviation", "range", "none"] = "deviation"
    """Band around the mean of several seeds. deviation: one standard deviation; range: minimum to
    maximum."""
    smoothing: Rate = 0.0
    """Weight of the past in an exponential moving average of the training metrics; the raw lines
    remain as pale lines. Validation is not smoothed."""
    log_scale: bool = False
    """Logarithmic scale for the metrics."""
    log_updates: bool = False
    """Logarithmic scale for the updates."""


@dataclass(frozen=True, kw_only=True)
class ConfusionConfig(
    PlotOptions,
    required={
        "files": "toolkit-plot confusion needs at least one file that toolkit-validate --json "
        "wrote."
    },
):
    POSITIONAL: ClassVar[str] = "files"
    kind = "confusion"

    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Files that toolkit-validate --json wrote."""


@dataclass(frozen=True, kw_only=True)
class KernelsConfig(CheckpointOptions, LayerOptions, PlotOptions):
    kind = "kernels"

    sentences: str | None = None
    """Text file, one sentence per line. Kernels that depend on the text are averaged over its
    tokens."""
    radius: PositiveInt = 16
    """Largest offset to draw, in tokens, of kernels that reach farther."""


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(CheckpointOptions, LayerOptions, PlotOptions):
    kind = "attention"

    sentence: str = ""
    """Sentence to draw. A second one may follow after [SEP], and [MASK] hides a token. Default: the
    first one of --sentences."""
    sentences: str | None = None
    """Text file, one sentence per line, over which the share of attention near the diagonal is
    averaged."""
    mean_heads: bool = False
    """Draw the mean over each layer's heads."""
    mean: bool = False
    """Draw one map per checkpoint, the mean over its layers and heads, side by side."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sentence.strip() and not self.sentences:
            raise ToolkitError('toolkit-plot attention needs --sentence "..." or --sentences FILE.')
        if len(self.path) > 1 and not self.mean:
            raise ToolkitError("Several checkpoints require --mean: draw one, or their means.")
        if self.mean and self.mean_heads:
            raise ToolkitError("--mean cannot be combined with --mean-heads.")


@dataclass(frozen=True, kw_only=True)
class PerturbationConfig(
    CheckpointOptions,
    PlotOptions,
    required={"sentences": "toolkit-plot perturbation needs --sentences FILE."},
):
    kind = "perturbation"

    sentences: str = ""
    """Text file, one sentence per line, all of the same words; the first is compared with each of
    the others. Required."""

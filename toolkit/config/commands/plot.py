"""Options of toolkit-plot: pictures of runs and of what they have learned."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar

from toolkit.config.options import MULTI_WORD, NO_SPLIT, field_default
from toolkit.config.sections import DEVICES, check_choice, require

KINDS = ("curve", "kernels", "attention", "perturbation", "confusion")
BANDS = ("deviation", "range", "none")
ONLY_FOR = {  # option -> the kinds that it says something about
    **dict.fromkeys(("metric", "subset", "smoothing", "band"), ("curve",)),
    **dict.fromkeys(("log_scale", "log_updates"), ("curve",)),
    **dict.fromkeys(("path", "device"), ("kernels", "attention", "perturbation")),
    **dict.fromkeys(("layers", "heads"), ("kernels", "attention")),
    **dict.fromkeys(("sentences",), ("kernels", "attention", "perturbation")),
    **dict.fromkeys(("radius",), ("kernels",)),
    **dict.fromkeys(("sentence", "mean_heads", "mean"), ("attention",)),
}


@dataclass(frozen=True, kw_only=True)
class PlotConfig:
    POSITIONAL: ClassVar[str] = "what"

    what: list[str] = field(default_factory=list)
    """What to draw. `curve RUN...`: learning curves of runs, which are save folders; a folder of
    runs, such as that of a sweep, stands for all of them, and those that differ in their seed
    alone are drawn as their mean. `kernels`: what the model of --path gives to each offset.
    `attention`: who attends to whom in --sentence. `perturbation`: what becomes of a word's vector
    where the words of --sentences change their order. `confusion FILE...`: which tag or class was
    taken for which, from files that toolkit-validate --json wrote."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """kernels, attention, perturbation: checkpoints, or save folders, whose best is meant."""
    output: str = ""
    """Picture to write; its ending says which kind: .png, .svg or .pdf. Empty for curve.png,
    kernels.png, attention.png, perturbation.png or confusion.png."""
    json: str | None = None
    """File to write the numbers to as JSON lines; - for standard output, on which nothing else
    is then written."""
    title: str = ""
    """Line above the picture."""
    metric: list[str] = field(default_factory=lambda: ["loss"])
    """curve: figures to draw, side by side, separated by commas."""
    subset: str = ""
    """curve: split to draw them of; empty for valid, and beside it train where it is of one
    configuration alone."""
    band: str = "deviation"
    """curve: what to draw around the mean of several seeds. deviation: one standard deviation
    either side; range: from the lowest to the highest; none."""
    smoothing: float = 0.0
    """curve: weight of what came before in an exponential mean over the reports of training, 0 to
    1, 1 excluded; the lines as they were stay behind it, pale. Validations stay as they are."""
    log_scale: bool = False
    """curve: draw the figures on a logarithmic scale."""
    log_updates: bool = False
    """curve: draw the updates on a logarithmic scale."""
    sentences: str | None = None
    """File of text, one sentence a line. kernels: those that depend on the text are averaged over
    its tokens. attention: how much stays near the diagonal is averaged over its sentences.
    perturbation: sentences of the same words, the one that the others are compared with first."""
    sentence: str = ""
    """attention: the sentence; a second one may follow behind [SEP], and [MASK] hides a token.
    Without it, the first of --sentences is drawn."""
    layers: list[int] = field(default_factory=list)
    """kernels, attention: layers to draw, from 1, separated by commas; empty for all, but for the
    last alone of kernels with a row for each channel."""
    heads: list[int] = field(default_factory=list)
    """kernels, attention: heads to draw, from 1, separated by commas; empty for all."""
    mean_heads: bool = False
    """attention: draw the mean over each layer's heads."""
    mean: bool = False
    """attention: draw one map of each checkpoint, the mean over its layers and heads, beside each
    other."""
    radius: int = 16
    """kernels: furthest offset to draw, in tokens, of kernels that reach farther."""
    device: str = "auto"
    """kernels, attention, perturbation: auto, cpu or cuda. auto is cuda where there is one."""

    def __post_init__(self) -> None:
        require(
            self.kind in KINDS,
            f"the first argument must be what to draw, {', '.join(KINDS)}, but is {self.kind!r}. "
            f"Write it as in toolkit-plot curve RUN.",
        )
        self.check_options()
        self.check_subject()
        require(
            self.output_file.lower().endswith((".png", ".svg", ".pdf")),
            f"output must end in .png, .svg or .pdf, but is {self.output!r}.",
        )
        check_choice("band", self.band, BANDS)
        check_choice("device", self.device, DEVICES)
        require(
            0 <= self.smoothing < 1,
            f"smoothing must lie between 0 and 1, 1 excluded, but is {self.smoothing}.",
        )
        require(self.radius > 0, f"radius must be at least 1, but is {self.radius}.")
        for name in ("layers", "heads"):
            least = min(getattr(self, name), default=1)
            require(least > 0, f"{name} must be counted from 1, but hold {least}.")

    def check_options(self) -> None:
        """An option of another kind of picture would do nothing."""
        defaults = {field.name: field_default(field, PlotConfig) for field in fields(self)}
        for name, kinds in ONLY_FOR.items():
            require(
                self.kind in kinds or getattr(self, name) == defaults[name],
                f"--{name.replace('_', '-')} must be given to toolkit-plot {' or '.join(kinds)}, "
                f"but this is toolkit-plot {self.kind}. Leave it out.",
            )

    def check_subject(self) -> None:
        """What is drawn must be named."""
        if self.kind == "curve":
            require(
                bool(self.runs),
                "toolkit-plot curve must be told which runs to draw, but is told none. Name "
                "their save folders.",
            )
            require(
                bool(self.metric),
                "--metric must name a figure to draw, but is empty. Leave it out for loss.",
            )
            return
        if self.kind == "confusion":
            require(
                bool(self.runs),
                "toolkit-plot confusion must be told what to draw, but is told nothing. Name files "
                "that toolkit-validate --json wrote.",
            )
            return
        require(
            not self.runs,
            f"toolkit-plot {self.kind} must be given its checkpoints by --path, but is given "
            f"{' '.join(self.runs)} without it.",
        )
        require(
            bool(self.path),
            f"toolkit-plot {self.kind} must be given a checkpoint, but is given none. Pass --path.",
        )
        require(
            self.kind != "perturbation" or bool(self.sentences),
            "toolkit-plot perturbation must be given sentences, but is given none. Pass "
            "--sentences FILE.",
        )
        if self.kind == "attention":
            self.check_attention()

    def check_attention(self) -> None:
        require(
            bool(self.sentence.strip() or self.sentences),
            "toolkit-plot attention must be given a sentence, but is given none. Pass "
            '--sentence "...", or --sentences FILE.',
        )
        require(
            len(self.path) == 1 or self.mean,
            f"toolkit-plot attention must be given one checkpoint, but is given "
            f"{len(self.path)}. Draw one at a time, or their means by --mean.",
        )
        require(
            not (self.mean and self.mean_heads),
            "--mean-heads and --mean exclude each other; give one.",
        )

    @property
    def kind(self) -> str:
        return self.what[0] if self.what else ""

    @property
    def runs(self) -> list[str]:
        return self.what[1:]

    @property
    def output_file(self) -> str:
        return self.output or f"{self.kind}.png"

"""Options of toolkit-plot: pictures of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from toolkit.config.sections import require

KINDS = ("curve",)


@dataclass(frozen=True, kw_only=True)
class PlotConfig:
    POSITIONAL: ClassVar[str] = "what"

    what: list[str] = field(default_factory=list)
    """What to draw, then of which runs: `curve RUN...`, learning curves. A run is a save folder;
    a folder of runs, such as that of a sweep, stands for all of them. Runs that differ in their
    seed alone are drawn as their mean, with a band of one standard deviation either side."""
    output: str = "curve.png"
    """Picture to write; its ending says which kind: .png, .svg or .pdf."""
    metric: str = "loss"
    """Figure to draw."""
    subset: str = ""
    """Split to draw it of; empty for valid, and beside it train where it is of one configuration
    alone."""
    log_scale: bool = False
    """Draw the figure on a logarithmic scale."""
    title: str = ""
    """Line above the picture."""

    def __post_init__(self) -> None:
        kind = self.what[0] if self.what else ""
        require(
            kind in KINDS,
            f"the first argument must be what to draw, {' or '.join(KINDS)}, but is {kind!r}. "
            f"Write it as in toolkit-plot curve RUN.",
        )
        require(
            len(self.what) > 1,
            f"toolkit-plot {kind} must be told which runs to draw, but is told none. "
            f"Name their save folders.",
        )
        require(
            self.output.lower().endswith((".png", ".svg", ".pdf")),
            f"output must end in .png, .svg or .pdf, but is {self.output!r}.",
        )

    @property
    def runs(self) -> list[str]:
        return self.what[1:]

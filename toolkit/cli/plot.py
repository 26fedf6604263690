"""toolkit-plot: pictures of runs, and of what their models have learned."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from toolkit.cli.command import execute
from toolkit.config.command import Command
from toolkit.config.commands.plot import PlotConfig
from toolkit.config.load import LoadedConfig

COMMAND = Command(
    name="toolkit-plot",
    summary="Draw learning curves of runs (curve), what a trained model gives to each offset "
    "(kernels), who attends to whom in a sentence (attention), what reordered words do to "
    "their vectors (perturbation), or which tag or class was taken for which (confusion). "
    "It needs matplotlib, which the extra `plot` installs.",
    example="toolkit-plot curve sweep --metric loss,accuracy --output curve.png",
    config=PlotConfig,
    common=("output", "json", "metric", "path", "sentences", "sentence"),
)

PLOTS = {  # what to draw -> the module with the function of that name
    "curve": "toolkit.analysis.plots.curve",
    "confusion": "toolkit.analysis.plots.confusion",
    "kernels": "toolkit.analysis.kernels",
    "attention": "toolkit.analysis.attention",
    "perturbation": "toolkit.analysis.perturbation",
}


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, plot, argv)


def plot(loaded: LoadedConfig) -> None:
    """Only what is drawn is imported: a curve needs no torch."""
    config: PlotConfig = loaded.config
    getattr(import_module(PLOTS[config.kind]), config.kind)(config)


if __name__ == "__main__":
    sys.exit(main())

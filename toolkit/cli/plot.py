"""toolkit-plot: pictures of runs, and of what their models have learnt."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.command import Command
from toolkit.config.load import Loaded
from toolkit.config.plot import PlotConfig

COMMAND = Command(
    name="toolkit-plot",
    summary="Draw learning curves of runs (curve), what a trained model gives to each offset "
    "(kernels), who attends to whom in a sentence (attention), what reordered words do to "
    "their vectors (perturbation), or which tag was taken for which (confusion). "
    "It needs matplotlib, which the extra `plot` installs.",
    example="toolkit-plot curve sweep --metric loss,accuracy --output curve.png",
    config=PlotConfig,
    common=("output", "json", "metric", "path", "sentences", "sentence"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, draw, argv)


def draw(loaded: Loaded) -> None:
    """Only what is drawn is imported: a curve needs no torch."""
    config: PlotConfig = loaded.config
    if config.kind == "curve":
        from toolkit.metrics.curve import curve

        curve(config)
    elif config.kind == "confusion":
        from toolkit.metrics.confusion_picture import confusion

        confusion(config)
    elif config.kind == "kernels":
        from toolkit.training.kernels import kernels

        kernels(config)
    elif config.kind == "perturbation":
        from toolkit.training.perturbation import perturbation

        perturbation(config)
    else:
        from toolkit.training.attention import attention

        attention(config)


if __name__ == "__main__":
    sys.exit(main())

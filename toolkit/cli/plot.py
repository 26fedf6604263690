"""toolkit-plot: pictures of runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.command import Command
from toolkit.config.load import Loaded
from toolkit.config.plot import PlotConfig

COMMAND = Command(
    name="toolkit-plot",
    summary="Draw learning curves of runs: the mean over seeds, with a band of one standard "
    "deviation. It needs matplotlib, which the extra `plot` installs.",
    example="toolkit-plot curve sweep --metric loss --output curve.png",
    config=PlotConfig,
    common=("output", "metric", "subset"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, draw, argv)


def draw(loaded: Loaded) -> None:
    from toolkit.metrics.curve import curve

    curve(loaded.config)


if __name__ == "__main__":
    sys.exit(main())

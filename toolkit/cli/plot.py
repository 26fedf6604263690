"""toolkit-plot: plots of runs and of what their models have learned."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from toolkit.cli.command import call, execute
from toolkit.common.files import check_output, report_write_errors
from toolkit.config.command import Command, CommandGroup
from toolkit.config.commands.plot import (
    AttentionConfig,
    ConfusionConfig,
    CurveConfig,
    KernelsConfig,
    PairPlotConfig,
    PerturbationConfig,
)
from toolkit.config.load import LoadedConfig

CHECKPOINT_PATH = {"checkpoint": "Write --path {path}."}

KINDS = (
    Command(
        name="toolkit-plot curve",
        summary="Learning curves of runs.",
        example="toolkit-plot curve sweep --metric loss,accuracy --output curve.png",
        config=CurveConfig,
    ),
    Command(
        name="toolkit-plot kernels",
        summary="Weight that a trained model gives to each offset.",
        example="toolkit-plot kernels --path run/checkpoint_best",
        config=KernelsConfig,
        misplaced_paths=CHECKPOINT_PATH,
    ),
    Command(
        name="toolkit-plot attention",
        summary="Attention maps of a sentence.",
        example='toolkit-plot attention --path run --sentence "The river is old."',
        config=AttentionConfig,
        misplaced_paths=CHECKPOINT_PATH,
    ),
    Command(
        name="toolkit-plot perturbation",
        summary="Distances between vectors of the same words in different orders.",
        example="toolkit-plot perturbation --path run --sentences orders.txt",
        config=PerturbationConfig,
        misplaced_paths=CHECKPOINT_PATH,
    ),
    Command(
        name="toolkit-plot confusion",
        summary="Confusion matrix of tags or classes.",
        example="toolkit-plot confusion metrics.jsonl",
        config=ConfusionConfig,
    ),
    Command(
        name="toolkit-plot minimal-pairs",
        summary="Accuracy of models on minimal pairs, such as BLiMP's, by phenomenon.",
        example="toolkit-plot minimal-pairs blimp.jsonl",
        config=PairPlotConfig,
    ),
)
COMMAND = CommandGroup(
    name="toolkit-plot",
    summary="Draw a plot of runs or of trained models. Needs matplotlib, which the extra `plot` "
    "installs.",
    example="toolkit-plot curve sweep --metric loss,accuracy --output curve.png",
    metavar="KIND",
    commands={command.name.split()[-1]: command for command in KINDS},
)

PLOTS = {
    "curve": "toolkit.analysis.curve:plot_curves",
    "confusion": "toolkit.analysis.confusion:plot_confusion",
    "minimal-pairs": "toolkit.analysis.minimal_pairs:plot_minimal_pairs",
    "kernels": "toolkit.analysis.kernels:plot_kernels",
    "attention": "toolkit.analysis.attention:plot_attention",
    "perturbation": "toolkit.analysis.perturbation:plot_perturbation",
}
"""Kind of plot -> its function; those of recorded results need no torch."""


def plot(loaded: LoadedConfig) -> int | None:
    """Draw the plot of a kind, once it is certain that it can be written."""
    output = Path(loaded.config.output_file)
    with report_write_errors("--output", output):
        output.parent.mkdir(parents=True, exist_ok=True)
    check_output("--output", output)
    return call(PLOTS[loaded.config.kind])(loaded)


main = partial(execute, COMMAND, plot)


if __name__ == "__main__":
    sys.exit(main())

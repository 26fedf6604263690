"""toolkit-plot: plots of runs and of what their models have learned."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.cli.command import program
from toolkit.common import plugins
from toolkit.common.registry import PLOTS
from toolkit.config.command import Command, CommandGroup
from toolkit.config.commands.plot import (
    AttentionConfig,
    ConfusionConfig,
    CurveConfig,
    KernelsConfig,
    PairPlotConfig,
    PerturbationConfig,
)
from toolkit.config.load import early_values, read_config_files
from toolkit.config.values import read_words

KINDS = (
    Command(
        name="toolkit-plot curve",
        summary="Learning curves of runs.",
        example="toolkit-plot curve sweep --metric loss,accuracy --output curve.png",
        config=CurveConfig,
        act="toolkit.analysis.curve:plot_curves",
    ),
    Command(
        name="toolkit-plot kernels",
        summary="Weight that a trained model gives to each offset.",
        example="toolkit-plot kernels --path run/checkpoint_best",
        config=KernelsConfig,
        act="toolkit.analysis.kernels:plot_kernels",
    ),
    Command(
        name="toolkit-plot attention",
        summary="Attention maps of a sentence.",
        example='toolkit-plot attention --path run --sentence "The river is old."',
        config=AttentionConfig,
        act="toolkit.analysis.attention:plot_attention",
    ),
    Command(
        name="toolkit-plot perturbation",
        summary="Distances between vectors of the same words in different orders.",
        example="toolkit-plot perturbation --path run --sentences orders.txt",
        config=PerturbationConfig,
        act="toolkit.analysis.perturbation:plot_perturbation",
    ),
    Command(
        name="toolkit-plot confusion",
        summary="Confusion matrix of tags or classes.",
        example="toolkit-plot confusion metrics.jsonl",
        config=ConfusionConfig,
        act="toolkit.analysis.confusion:plot_confusion",
    ),
    Command(
        name="toolkit-plot minimal-pairs",
        summary="Accuracy of models on minimal pairs, such as BLiMP's, by phenomenon.",
        example="toolkit-plot minimal-pairs blimp.jsonl",
        config=PairPlotConfig,
        act="toolkit.analysis.minimal_pairs:plot_minimal_pairs",
    ),
)


def find_plots(argv: Sequence[str]) -> dict[str, Command]:
    """The kinds of plots of the plugins that --user-dir names."""
    read_config_files(early_values(read_words(argv), KINDS[0]), KINDS[0])
    plugins.load_installed()
    return {
        name: Command(
            name=f"toolkit-plot {name}",
            summary=PLOTS.summary(name),
            example=f"toolkit-plot {name} --user-dir FOLDER",
            config=PLOTS[name].config,
            act=PLOTS[name].factory,
        )
        for name in PLOTS.names()
    }


COMMAND = CommandGroup(
    name="toolkit-plot",
    summary="Draw a plot of runs or of trained models. Needs matplotlib, which the extra `plot` "
    "installs.",
    example="toolkit-plot curve sweep --metric loss,accuracy --output curve.png",
    metavar="KIND",
    commands={command.name.split()[-1]: command for command in KINDS},
    find_more=find_plots,
)
main = program(COMMAND, __name__)

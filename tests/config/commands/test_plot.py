import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import (
    AttentionConfig,
    ConfusionConfig,
    CurveConfig,
    KernelsConfig,
    PairPlotConfig,
    PerturbationConfig,
)

RUN = {"runs": ["run"]}
PATH = {"path": ["run"]}


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (CurveConfig, {}, r"toolkit-plot curve needs at least one run"),
        (CurveConfig, {**RUN, "output": "a.gif"}, r"--output must end in .png, .svg or .pdf, but"),
        (CurveConfig, {**RUN, "metric": []}, r"--metric must name a metric, but is empty"),
        (CurveConfig, {**RUN, "size": "wide"}, r"--size must be WIDTH or WIDTHxHEIGHT in inches"),
        (CurveConfig, {**RUN, "labels": ["a"]}, r"--labels must be NAME=LABEL, but is 'a'"),
        (ConfusionConfig, {}, r"toolkit-plot confusion needs at least one file"),
        (PairPlotConfig, {}, r"toolkit-plot minimal-pairs needs at least one file that toolkit-va"),
        (KernelsConfig, {}, r"--path is required"),
        (AttentionConfig, {**PATH, "sentence": " "}, r"needs --sentence"),
        (PerturbationConfig, PATH, r"toolkit-plot perturbation needs --sentences FILE"),
    ],
)
def test_plot_rejects_impossible_options(config, options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**options)


@pytest.mark.parametrize(
    ("size", "inches"),
    [("", None), ("column", (3.25, None)), ("6.5", (6.5, None)), ("6.5x3", (6.5, 3.0))],
)
def test_size_is_read_in_inches(size, inches):
    assert CurveConfig(**RUN, size=size).inches == inches

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
SENTENCE = {**PATH, "sentence": "Hello."}


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (CurveConfig, {}, r"toolkit-plot curve needs at least one run"),
        (CurveConfig, {**RUN, "output": "a.gif"}, r"--output must end in .png, .svg or .pdf, but"),
        (CurveConfig, {**RUN, "band": "x"}, r"band must be one of deviation, range, none, but"),
        (CurveConfig, {**RUN, "smoothing": 1.0}, r"smoothing must be at least 0 and below 1, but"),
        (CurveConfig, {**RUN, "metric": []}, r"--metric must name a metric, but is empty"),
        (CurveConfig, {**RUN, "size": "wide"}, r"--size must be WIDTH or WIDTHxHEIGHT in inches"),
        (CurveConfig, {**RUN, "size": "3x0"}, r"--size must be .* from 1 to 100, .* '3x0'"),
        (CurveConfig, {**RUN, "labels": ["a"]}, r"--labels must be NAME=LABEL, but is 'a'"),
        (ConfusionConfig, {}, r"toolkit-plot confusion needs at least one file"),
        (PairPlotConfig, {}, r"toolkit-plot minimal-pairs needs at least one file that toolkit-va"),
        (KernelsConfig, {}, r"--path is required"),
        (
            KernelsConfig,
            {**PATH, "device": "tpu"},
            r"device must be one of auto, cpu, cuda, mps, xpu",
        ),
        (KernelsConfig, {**PATH, "radius": 0}, r"radius must be at least 1, but is 0"),
        (KernelsConfig, {**PATH, "layers": [0]}, r"each item of layers must be at least 1, but is"),
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


def test_output_file_defaults_to_the_kind_of_plot():
    assert KernelsConfig(**PATH).output_file == "kernels.png"
    assert AttentionConfig(**SENTENCE, output="x.svg").output_file == "x.svg"


def test_several_attention_maps_are_drawn_as_means():
    c = AttentionConfig(**{**SENTENCE, "path": ["a", "b"]})
    assert c.draws_means and not AttentionConfig(**{**SENTENCE, "path": ["a"]}).draws_means

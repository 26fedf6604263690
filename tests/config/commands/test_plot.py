import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PlotConfig

KERNELS = {"what": ["kernels"], "path": ["run"]}
ATTENTION = {"what": ["attention"], "path": ["run"], "sentence": "Hello."}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"what": ["run"]},
            r"must be what to draw, curve, kernels, attention, perturbation, confusion, but is",
        ),
        ({"what": ["curve"]}, r"must be told which runs to draw, but is told none"),
        (
            {"what": ["curve", "run"], "output": "a.gif"},
            r"must end in .png, .svg or .pdf, but is 'a",
        ),
        (
            {"what": ["curve", "run"], "band": "x"},
            r"band must be one of deviation, range, none, but",
        ),
        (
            {"what": ["curve", "run"], "smoothing": 1.0},
            r"smoothing must lie between 0 and 1, 1 excl",
        ),
        (
            {"what": ["curve", "run"], "metric": []},
            r"--metric must name a figure to draw, but is empty",
        ),
        (
            {"what": ["curve", "run"], "radius": 3},
            r"--radius must be given to toolkit-plot kernels",
        ),
        (
            {**KERNELS, "metric": ["ppl"]},
            r"--metric must be given to toolkit-plot curve, but this is",
        ),
        (
            {"what": ["kernels", "run"]},
            r"must be given its checkpoints by --path, but is given run",
        ),
        (
            {"what": ["kernels"]},
            r"toolkit-plot kernels must be given a checkpoint, but is given none",
        ),
        ({**KERNELS, "device": "tpu"}, r"device must be one of auto, cpu, cuda, but is 'tpu'"),
        ({**KERNELS, "radius": 0}, r"radius must be at least 1, but is 0"),
        ({**KERNELS, "layers": [0]}, r"layers must be counted from 1, but hold 0"),
        ({**ATTENTION, "sentence": " "}, r"must be given a sentence, but is given none. Pass"),
        ({**ATTENTION, "path": ["a", "b"]}, r"must be given one checkpoint, but is given 2. Draw"),
        (
            {**ATTENTION, "mean_heads": True, "mean": True},
            r"--mean-heads and --mean exclude each other; give one",
        ),
    ],
)
def test_what_cannot_be_drawn_is_told(options, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        PlotConfig(**options)


def test_the_picture_is_called_after_its_kind_unless_it_is_named():
    assert PlotConfig(**KERNELS).output_file == "kernels.png"
    assert PlotConfig(**ATTENTION, output="x.svg").output_file == "x.svg"

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.plot import PlotConfig


def test_the_first_word_is_what_to_draw():
    with pytest.raises(ToolkitError, match=r"must be what to draw, curve, but is 'run'. Write it"):
        PlotConfig(what=["run"])


def test_there_must_be_runs():
    with pytest.raises(ToolkitError, match=r"must be told which runs to draw, but is told none"):
        PlotConfig(what=["curve"])


def test_the_ending_of_the_picture_is_checked():
    with pytest.raises(ToolkitError, match=r"must end in .png, .svg or .pdf, but is 'a.gif'"):
        PlotConfig(what=["curve", "run"], output="a.gif")

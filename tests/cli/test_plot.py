"""Kinds of toolkit-plot from a plugin."""

import pytest

from toolkit.cli.plot import main
from toolkit.common.registry import PLOTS

PLUGIN = '''
from dataclasses import dataclass

from toolkit import register_plot
from toolkit.analysis.plot_style import new_plot, open_plot, write_plot
from toolkit.config.commands.plot import PlotOptions


@dataclass(frozen=True, kw_only=True)
class DotsConfig(PlotOptions, word="dots"):
    count: int = 2
    """Number of dots."""


@register_plot("dots", DotsConfig(count=3, dpi=50))
def plot_dots(c):
    """Dots on a line."""
    with open_plot(c) as output:
        write_plot(c, draw, c.count, output=output)


def draw(count):
    figure = new_plot(2.0, 1.0)
    figure.subplots().plot(range(count), "o")
    return figure
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Words that load a plugin with a plot; the current folder is empty."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "dots.py").write_text(PLUGIN)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    yield ["--user-dir", str(tmp_path / "own")]
    PLOTS._entries.clear()


def test_plot_of_a_plugin_is_a_kind_with_its_options_and_defaults(own, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["dots", "--print-config", *own]) == 0
    assert "count: 3" in capsys.readouterr().out
    assert main(["dots", *own, "--count", "4"]) == 0
    assert capsys.readouterr().out == "dots.png\n"
    assert (tmp_path / "work" / "dots.png").read_bytes().startswith(b"\x89PNG")


def test_help_lists_the_plots_of_a_plugin(own, capsys):
    assert main(["--help", *own]) == 0
    assert "dots           Dots on a line." in capsys.readouterr().out
    assert main(["dots", "--help", *own]) == 0
    assert "Number of dots. (default: 3)" in capsys.readouterr().out


def test_unknown_plot_is_answered_with_all_kinds(own, capsys):
    assert main(["dot", *own]) == 2
    assert "one of curve, kernels, " in (err := capsys.readouterr().err) and "dots" in err

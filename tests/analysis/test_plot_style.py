"""Lines, fonts, sizes and files of plots."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from toolkit.analysis.plot_style import (
    line_style,
    new_plot,
    write_plot,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import CurveConfig


@pytest.fixture
def config(tmp_path):
    return lambda **options: CurveConfig(
        **{"runs": ["run"], "output": str(tmp_path / "plot.pdf"), **options}
    )


def draw(c):
    figures = []

    def draw_axis():
        figures.append(new_plot(4.0, 2.0))
        figures[0].add_subplot().set(xlabel="updates", ylim=(-1, 1))
        return figures[0]

    write_plot(c, draw_axis)
    return figures[0]


def test_pdf_has_true_type_fonts(config):
    c = config(font_family="STIXGeneral")
    draw(c)
    with open(c.output, "rb") as file:
        written = file.read()
    assert b"/CIDFontType2" in written and b"/Type3" not in written
    assert b"STIXGeneral" in written


def test_text_is_drawn_as_it_is(config, tmp_path):
    texts = ["$", "$$", r"$\frac$", r"\$ \ _", "a_b $x_1$ %", "<&>", "\n"]
    c = config(output=str(tmp_path / "plot.svg"), title="".join(texts))
    drawn = []

    def draw_texts():
        fig = new_plot(4.0, 3.0)
        drawn.append(fig.add_subplot())
        drawn[0].set_xticks(range(len(texts)), texts)
        fig.legend(drawn[0].plot([1, 2]), [texts[2]], loc="outside lower center")
        return fig

    write_plot(c, draw_texts)
    [ax] = drawn
    assert [label.get_text() for label in ax.get_xticklabels()] == texts
    assert not any(label.get_parse_math() for label in ax.get_xticklabels())
    assert (tmp_path / "plot.svg").stat().st_size > 1000


def test_text_without_glyphs_is_valid_svg(config, tmp_path):
    c = config(output=str(tmp_path / ".svg"), title="a \x01 \0 \ue000 -- \x7f \ue000")
    with pytest.warns(UserWarning, match="missing from font"):
        draw(c)
    ElementTree.parse(c.output_file)


def test_lines_differ_in_dashes_and_markers_without_color():
    styles = [[*line_style(index).values()][1:3] for index in range(20)]
    assert all(a != b for a, b in combinations(styles, 2))
    colors = [line_style(index)["color"] for index in range(7)]
    assert len(set(colors)) == 7


def test_size_and_fonts_follow_the_options(config):
    fig = draw(config(size="3.25", font_size=12.0, font_family="serif"))
    assert fig.get_size_inches().tolist() == [3.25, 1.625]
    label = fig.axes[0].xaxis.label
    assert (label.get_fontsize(), label.get_family()) == (12.0, ["serif"])
    assert draw(config(size="5x5")).get_size_inches().tolist() == [5.0, 5.0]


def test_an_unknown_font_is_rejected(config):
    with pytest.raises(ToolkitError, match=r"--font-family must be an installed font, but 'No"):
        draw(config(font_family="No Such Font"))

"""Lines, fonts, sizes and files of plots."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

from toolkit.analysis.plot_style import label_metric, label_variants

pytest.importorskip("matplotlib")

from toolkit.analysis.plot_style import (
    line_style,
    new_plot,
    style_colorbar,
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


@pytest.mark.parametrize(("points", "marked"), [(6, 6), (10, 10), (100, 10), (1000, 10)])
def test_long_lines_have_about_ten_markers(points, marked):
    start, step = line_style(1, points)["markevery"]
    assert len(range(points)[start::step]) in (marked, marked - 1, marked + 1)


def test_size_and_fonts_follow_the_options(config):
    fig = draw(config(size="3.25", font_size=12.0, font_family="serif"))
    assert fig.get_size_inches().tolist() == [3.25, 1.625]
    label = fig.axes[0].xaxis.label
    assert (label.get_fontsize(), label.get_family()) == (12.0, ["serif"])
    assert draw(config(size="5x5")).get_size_inches().tolist() == [5.0, 5.0]


def test_an_unknown_font_is_rejected(config):
    with pytest.raises(ToolkitError, match=r"--font-family must be an installed font, but 'No"):
        draw(config(font_family="No Such Font"))


def test_color_bars_have_no_lines_between_colors():
    fig = new_plot(2.0, 2.0)
    ax = fig.subplots()
    bar = fig.colorbar(ax.imshow([[0.0, 1.0]]), ax=ax)
    style_colorbar(bar)
    assert bar.solids.get_rasterized()
    assert bar.solids.get_edgecolor().tolist() == bar.solids.get_facecolor().tolist()


@pytest.mark.parametrize(
    ("metric", "label", "factor"),
    [
        ("loss", "loss (nats)", 1.0),
        ("mlm_loss", "loss of masked tokens (nats)", 1.0),
        ("oov_accuracy", "accuracy of unknown words (%)", 100.0),
        ("generator_accuracy", "generator accuracy (%)", 100.0),
        ("ppl", "perplexity", 1.0),
        ("auc", "AUC", 1.0),
        ("tokens_per_second", "tokens per second", 1.0),
        ("my_metric", "my metric", 1.0),
    ],
)
def test_metrics_have_labels_with_units(metric, label, factor):
    assert label_metric(metric) == (label, factor)


@pytest.mark.parametrize(
    ("names", "labels", "title"),
    [
        (["conv_type=span", "conv_type=none"], ["span", "none"], "conv type"),
        (["arch=order_rope", "arch=order_none"], ["rope", "none"], "arch"),
        (["fixed=true, dynamic=false", "fixed=true, dynamic=true"],
         ["fixed, no dynamic", "fixed, dynamic"], ""),
        (["conv_san_add", "conv_san_pr"], ["add", "pr"], ""),
        (["bert-s", "bert-s-2", "bert"], ["bert-s", "bert-s-2", "bert"], ""),
        (["fixed=true", "fixed=false"], ["fixed", "no fixed"], ""),
        (["my_run"], ["my run"], ""),
        (["a", "a_b"], ["a", "a b"], ""),
    ],
)  # fmt: skip
def test_variants_are_named_in_words(names, labels, title):
    assert label_variants(names) == (dict(zip(names, labels, strict=True)), title)

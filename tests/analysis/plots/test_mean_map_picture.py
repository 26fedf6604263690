from matplotlib.backends.backend_agg import FigureCanvasAgg

from toolkit.analysis.plots.attention import MeanMap, draw_mean_maps

WEIGHTS = [[0.5, 0.5], [0.25, 0.75]]


def test_draw_mean_maps_has_one_panel_per_model_on_one_scale():
    means = [
        MeanMap("bert", ["[CLS]", "food"], WEIGHTS, 0.941),
        MeanMap("convbert", ["<s>", "foo", "-d"], [[0.9, 0.1, 0.0]] * 3, 0.608),
    ]
    figure = draw_mean_maps(means, "a sentence")
    *panels, bar = figure.axes
    assert [p.get_title() for p in panels] == ["bert, C = 0.941", "convbert, C = 0.608"]
    assert [p.images[0].get_clim() for p in panels] == [(0.0, 0.9)] * 2
    assert [[t.get_text() for t in p.get_xticklabels()] for p in panels] == [
        m.tokens for m in means
    ]
    left, right, colors = (axes.get_position() for axes in (*panels, bar))
    assert 0 < left.x0 < left.x1 < right.x0 < right.x1 < colors.x0 < colors.x1 < 1


def test_mean_map_title_omits_missing_parts():
    assert (
        draw_mean_maps([MeanMap("", ["a", "b"], WEIGHTS, 0.5)], "").axes[0].get_title()
        == "C = 0.500"
    )
    assert draw_mean_maps([MeanMap("", ["a", "b"], WEIGHTS, None)], "").axes[0].get_title() == ""


def test_draw_mean_maps_shortens_long_titles():
    figure = draw_mean_maps([MeanMap("", ["a", "b"], WEIGHTS, 0.5)], "word " * 200)
    box = figure.texts[-1].get_window_extent(FigureCanvasAgg(figure).get_renderer())
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1

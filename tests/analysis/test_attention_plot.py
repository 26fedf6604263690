from itertools import pairwise

from matplotlib.backends.backend_agg import FigureCanvasAgg

from toolkit.analysis.attention import draw_maps

TOKENS = ["[CLS]", "word", "[SEP]"]
WEIGHTS = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [1.0, 0.0, 0.0]]


def maps(layers, heads, columns, tokens=TOKENS):
    panels = [
        (f"layer {layer}, head {head}", tokens, WEIGHTS) for layer in layers for head in heads
    ]
    return draw_maps(panels, columns, "a sentence", False)


def labels(ax):
    return [t.get_text() for t in ax.get_yticklabels()], [
        t.get_text() for t in ax.get_xticklabels()
    ]


def test_draw_maps_has_layers_as_rows_and_heads_as_columns():
    fig = maps([1, 4], [1, 2, 3], 3)
    axes = fig.axes[:-1]  # the last one is the color bar
    assert [p.get_title() for p in axes][::4] == ["layer 1, head 1", "layer 4, head 2"]
    assert labels(axes[0]) == (TOKENS, []) and labels(axes[3]) == (TOKENS, TOKENS)
    assert labels(axes[1]) == ([], []) and labels(axes[5]) == ([], TOKENS)


def test_draw_maps_uses_one_scale():
    fig = maps([1], [1, 2], 2)
    assert [p.images[0].get_clim() for p in fig.axes[:-1]] == [(0.0, 1.0)] * 2


def test_draw_maps_labels_columns_above_an_unfilled_row():
    fig = maps(range(1, 7), [None], 4)
    below = [bool(labels(p)[1]) for p in fig.axes[:-1]]
    assert below == [False, False, True, True, True, True]


def test_draw_maps_has_no_overlaps_with_144_maps():
    fig = maps(range(1, 13), range(1, 13), 12, ["longest-token", *TOKENS[1:]])
    boxes = [p.get_position() for p in fig.axes]
    assert all(b.x0 > 0 and b.y0 > 0 and b.x1 < 1 and b.y1 < 1 for b in boxes)
    neighbors = pairwise(boxes[:-1])
    assert all(a.x1 < b.x0 or b.y1 < a.y0 for a, b in neighbors)


TWO_BY_TWO = [[0.5, 0.5], [0.25, 0.75]]


def test_draw_maps_of_means_has_one_panel_per_model_on_one_scale():
    means = [
        ("bert, C = 0.941", ["[CLS]", "food"], TWO_BY_TWO),
        ("convbert, C = 0.608", ["<s>", "foo", "-d"], [[0.9, 0.1, 0.0]] * 3),
    ]
    fig = draw_maps(means, 2, "a sentence", True)
    *axes, bar = fig.axes
    assert [p.get_title() for p in axes] == ["bert, C = 0.941", "convbert, C = 0.608"]
    assert [p.images[0].get_clim() for p in axes] == [(0.0, 0.9)] * 2
    ticks = [[t.get_text() for t in p.get_xticklabels()] for p in axes]
    assert ticks == [tokens for _, tokens, _ in means]
    left, right, colors = (ax.get_position() for ax in (*axes, bar))
    assert 0 < left.x0 < left.x1 < right.x0 < right.x1 < colors.x0 < colors.x1 < 1


def test_draw_maps_of_means_shortens_long_titles():
    fig = draw_maps([("", ["a", "b"], TWO_BY_TWO)], 1, "word " * 200, True)
    box = fig.texts[-1].get_window_extent(FigureCanvasAgg(fig).get_renderer())
    assert box.x0 >= 0 and box.x1 <= fig.bbox.x1

from itertools import pairwise

import pytest

from toolkit.analysis.plots.attention import HeadMap, draw_maps, grid_shape

TOKENS = ["[CLS]", "word", "[SEP]"]
WEIGHTS = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [1.0, 0.0, 0.0]]


def maps(layers, heads):
    return [HeadMap(layer, head, WEIGHTS) for layer in layers for head in heads]


def labels(panel):
    return [t.get_text() for t in panel.get_yticklabels()], [
        t.get_text() for t in panel.get_xticklabels()
    ]


def test_draw_maps_has_layers_as_rows_and_heads_as_columns():
    figure = draw_maps(maps([1, 4], [1, 2, 3]), TOKENS, "a sentence")
    panels = figure.axes[:-1]  # the last one is the color bar
    assert [p.get_title() for p in panels][::4] == ["layer 1, head 1", "layer 4, head 2"]
    assert labels(panels[0]) == (TOKENS, []) and labels(panels[3]) == (TOKENS, TOKENS)
    assert labels(panels[1]) == ([], []) and labels(panels[5]) == ([], TOKENS)


def test_draw_maps_uses_one_scale():
    figure = draw_maps(maps([1], [1, 2]), TOKENS, "")
    assert [p.images[0].get_clim() for p in figure.axes[:-1]] == [(0.0, 1.0)] * 2


@pytest.mark.parametrize(("layers", "expected"), [(1, (1, 1)), (4, (1, 4)), (6, (2, 4))])
def test_draw_maps_fills_rows_of_four_means(layers, expected):
    assert grid_shape(maps(range(1, layers + 1), [None])) == expected


def test_draw_maps_labels_columns_above_an_unfilled_row():
    figure = draw_maps(maps(range(1, 7), [None]), TOKENS, "")
    below = [bool(labels(p)[1]) for p in figure.axes[:-1]]
    assert below == [False, False, True, True, True, True]


def test_draw_maps_has_no_overlaps_with_144_maps():
    figure = draw_maps(maps(range(1, 13), range(1, 13)), ["longest-token", *TOKENS[1:]], "")
    boxes = [p.get_position() for p in figure.axes]
    assert all(b.x0 > 0 and b.y0 > 0 and b.x1 < 1 and b.y1 < 1 for b in boxes)
    neighbors = pairwise(boxes[:-1])
    assert all(a.x1 < b.x0 or b.y1 < a.y0 for a, b in neighbors)

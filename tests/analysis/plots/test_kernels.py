import pytest

from toolkit.analysis.kernel_table import KernelRows
from toolkit.analysis.plots.kernels import draw_kernels, sort_channels

OFFSETS = [-1, 0, 1]


def heads(layer, name="fixed", deviation=None):
    return KernelRows(layer, name, "head", OFFSETS, [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]], deviation)


def channels(layer):
    rows = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]
    return KernelRows(layer, "depthwise", "channel", OFFSETS, rows, None)


@pytest.fixture
def axes():
    def every(fig):
        return [*fig.axes, *(a for sub in fig.subfigs for a in every(sub))]

    return lambda fig: list(dict.fromkeys(every(fig)))


def test_draw_kernels_has_one_panel_per_layer_and_head(axes):
    panels = axes(draw_kernels({"run": [heads(1), heads(3)]}, ""))
    assert [p.get_ylabel() for p in panels] == ["layer 1\nvalue", "", "layer 3\nvalue", ""]
    assert [p.get_title() for p in panels] == ["head 1", "head 2", "", ""]
    assert len({p.get_ylim() for p in panels}) == 1


def test_draw_kernels_draws_kernels_of_a_layer_in_shared_panels():
    spread = [[0.1, 0.1, 0.1]] * 2
    fig = draw_kernels({"run": [heads(1), heads(1, "query", spread)]}, "")
    [block] = fig.subfigs
    assert [t.get_text() for t in block.legends[0].texts] == ["fixed", "query, mean and deviation"]
    assert len(block.axes) == 2 and len(block.axes[0].collections) == 1  # the band


def test_draw_kernels_sorts_channels_by_next_minus_previous(axes):
    assert sort_channels(channels(1)) == [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]
    panel, _ = axes(draw_kernels({"run": [channels(4)]}, ""))
    assert panel.get_title() == "layer 4, depthwise"
    assert panel.images[0].get_clim() == (-1.0, 1.0)  # white is zero


def test_sort_channels_keeps_the_order_of_kernels_with_one_tap(axes):
    alone = KernelRows(1, "span", "channel", [0], [[2.0], [1.0]], None)
    panel, _ = axes(draw_kernels({"run": [alone]}, ""))
    assert panel.images[0].get_array().tolist() == alone.mean


def test_draw_kernels_has_one_block_per_checkpoint(axes):
    fig = draw_kernels({"a": [heads(1), channels(1)], "b": [heads(1), channels(1)]}, "both")
    assert [block.get_suptitle() for block in fig.subfigs] == ["a", "b"]
    assert len(axes(fig)) == 2 * (2 + 2)

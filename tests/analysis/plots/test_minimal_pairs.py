"""Panels of accuracies on minimal pairs."""

import pytest

pytest.importorskip("matplotlib")

from toolkit.analysis.plots.minimal_pairs import GroupAccuracy, draw_panels
from toolkit.analysis.plots.style import plot_style, save_plot
from toolkit.config.commands.plot import PairPlotConfig

MODELS = [f"variant {index}" for index in range(14)]
GROUPS = [
    "overall",
    *(f"constraint on {index} coordinate structures: object extraction" for index in range(3)),
]
LABELS = {name: name for name in (*MODELS, *GROUPS)}


def draw(c, groups=GROUPS, models=MODELS, seeds=2):
    accuracies = {
        model: GroupAccuracy(90.0 - row, 0.5 if row else None, [90.0 - row] * seeds)
        for row, model in enumerate(models)
    }
    with plot_style(c):
        fig = draw_panels({group: accuracies for group in groups}, LABELS, c)
        save_plot(fig, c)
    return fig


@pytest.fixture
def config(tmp_path):
    return lambda **options: PairPlotConfig(
        files=["a"], **{"output": str(tmp_path / "plot.pdf"), **options}
    )


def test_fourteen_models_fit_a_column_without_overlap(config):
    c = config(size="column")
    fig = draw(c, GROUPS[:4])
    assert len(fig.axes) == 4 and fig.get_figwidth() == 3.25
    titles = [ax.title.get_window_extent() for ax in fig.axes]
    assert not [1 for i, a in enumerate(titles) for b in titles[:i] if a.overlaps(b)]
    [*names] = [it.get_window_extent() for it in fig.axes[0].get_yticklabels()]
    assert not [1 for i, a in enumerate(names) for b in names[:i] if a.overlaps(b)]
    inside = fig.bbox
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in (*titles, *names))
    with open(c.output, "rb") as file:
        assert b"/Type3" not in file.read()


def test_panels_share_a_scale_with_a_line_at_chance(config):
    fig = draw(config(), GROUPS[:3], MODELS[:2], seeds=1)
    assert len({ax.get_xlim() for ax in fig.axes}) == 1
    for ax in fig.axes:
        assert 50.0 in [line.get_xdata()[0] for line in ax.get_lines()]
        assert ax.get_xlim()[0] < 50.0
    assert [it.get_text() for it in fig.axes[0].get_yticklabels()] == MODELS[:2]
    assert fig.axes[0].get_ylim()[0] > fig.axes[0].get_ylim()[1]  # the first model on top


@pytest.mark.parametrize("size", ["", "column"])
def test_the_label_of_the_axis_fits_the_width(config, size):
    fig = draw(config(size=size), GROUPS[:1], MODELS[:2])
    box = fig._supxlabel.get_window_extent()
    assert fig.bbox.x0 <= box.x0 and box.x1 <= fig.bbox.x1


@pytest.mark.parametrize(
    ("models", "seeds", "label"),
    [
        (MODELS[:1], 1, "accuracy (%)"),  # the first model has no standard error
        (MODELS[:2], 1, "accuracy (%) ± standard error over pairs"),
        (MODELS[:1], 2, "accuracy (%); mean over seeds; strokes: each seed"),
    ],
)
def test_the_label_of_the_axis_explains_only_what_is_drawn(config, models, seeds, label):
    fig = draw(config(), ["overall"], models, seeds)
    assert " ".join(fig._supxlabel.get_text().split()) == label


def test_seeds_are_strokes(config):
    for seeds, lines in ((1, 0), (3, 1)):
        fig = draw(config(), ["overall"], MODELS[:1], seeds)
        strokes = [line for line in fig.axes[0].get_lines() if line.get_marker() == "|"]
        assert sum(len(line.get_xdata()) == 3 for line in strokes) == lines

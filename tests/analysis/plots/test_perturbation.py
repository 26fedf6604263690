from toolkit.analysis.plots.perturbation import (
    VectorDifference,
    draw_differences,
    group_by_sentences,
)

WORDS = [
    VectorDifference(model, pair, word, distance, angle)
    for model in ("a", "b")
    for pair, word, distance, angle in (
        ((1, 2), "bob", 0.5, 30.0),
        ((1, 2), "once", 0.7, 40.0),
        ((1, 3), "bob", 0.9, 60.0),
        ((1, 2), "[CLS]", 0.01, 1.0),
        ((1, 3), "[CLS]", 0.02, 2.0),
    )
]


def test_group_by_sentences_groups_words_and_cls():
    groups = group_by_sentences(WORDS)
    assert list(groups) == [
        "words of sentences 1 and 2", "words of sentences 1 and 3", "[CLS] of sentences"
    ]  # fmt: skip
    assert [one.word for one in groups["[CLS] of sentences"][:2]] == ["1 and 2", "1 and 3"]


def test_draw_differences_has_panels_for_distance_and_angle():
    fig = draw_differences(WORDS, "title")
    assert len(fig.axes) == 6
    distances, angles = fig.axes[:2]
    assert [bar.get_height() for bar in distances.patches] == [0.5, 0.7, 0.5, 0.7]
    assert [bar.get_height() for bar in angles.patches] == [30.0, 40.0, 30.0, 40.0]
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["a", "b"]


def test_draw_differences_shares_a_scale_among_words_only():
    first, _, second, _, whole, _ = draw_differences(WORDS, "").axes
    assert first.get_ylim() == second.get_ylim() and whole.get_ylim()[1] < 0.05
    assert first.get_ylim()[1] > 0.9  # the highest bar of both

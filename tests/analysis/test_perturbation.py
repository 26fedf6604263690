import json
import math
from unittest.mock import Mock

import pytest
import torch

from toolkit.analysis.perturbation import (
    VectorDifference,
    compare_vectors,
    difference_table,
    draw_differences,
    plot_perturbation,
    split_words,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PerturbationConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import WordBoundaries


@pytest.fixture
def compared(trained, tmp_path, capsys):
    """The JSON lines that comparing sentences gives, and the text output."""

    def compare(*lines):
        (tmp_path / "s.txt").write_text("\n".join(lines))
        plot_perturbation(
            PerturbationConfig(
                path=[str(trained)],
                sentences=str(tmp_path / "s.txt"),
                output=str(tmp_path / "p.png"),
                json="-",
            )
        )
        captured = capsys.readouterr()
        return [json.loads(line) for line in captured.out.splitlines()], captured.err

    return compare


def test_compare_vectors_follows_the_paper():
    vectors = [{"w": torch.tensor([3.0, 4.0])}, {"w": torch.tensor([0.0, 10.0])}]
    found = compare_vectors(vectors, (0, 1), "w", "run")
    assert found.distance == pytest.approx(math.sqrt(9 + 36) / 5)
    assert found.angle == pytest.approx(math.degrees(math.acos(0.8)))
    assert found.sentences == (1, 2)


def test_perturbation_compares_equal_words_at_any_position(compared, tmp_path):
    found, captured = compared("the cat the dog", "the dog the cat")
    words = [one["word"] for one in found]
    assert words == ["the", "cat", "the (2)", "dog", "[CLS]"]
    assert all(one["distance"] > 0 for one in found)
    assert "1, 2       cat" in captured and (tmp_path / "p.png").exists()


@pytest.mark.slow
def test_perturbation_of_an_equal_sentence_is_zero(compared):
    found, _ = compared("the cat", "the cat", "cat")
    same = [one for one in found if one["sentences"] == [1, 2]]
    assert all(one["distance"] == 0 and one["angle"] < 1e-3 for one in same)
    assert sum(one["word"] == "[CLS]" for one in found) == 3


def letter_tokenizer(text):
    """A tokenizer of letters, in which @ begins a word."""
    symbols = ["[CLS]", *text, "[SEP]"]
    tokenizer = Mock(spec=Tokenizer)
    tokenizer.vocabulary = Mock()
    tokenizer.decode = lambda ids: "".join(symbols[i] for i in ids).replace("@", "")
    tokenizer.vocabulary.special = {0, len(symbols) - 1}
    pieces = [(symbol == "@", symbol.encode()) for symbol in symbols]
    tokenizer.vocabulary.words = WordBoundaries(pieces, (0, len(symbols) - 1))
    return tokenizer


def test_split_words_joins_subwords_without_punctuation():
    text = "@Cats,@(do-g)@--@a"
    found = dict(split_words(letter_tokenizer(text), range(len(text) + 2)))
    assert list(found) == ["cats", "do-g", "a"]
    assert found["cats"] == [2, 3, 4, 5] and found["do-g"] == [9, 10, 11, 12] and found["a"] == [18]


def test_difference_table_keeps_columns_of_missing_words():
    found = [
        VectorDifference("a", (1, 2), "x", 1.0, 2.0),
        VectorDifference("b", (1, 2), "y", 3.0, 4.0),
    ]
    assert difference_table(found, ["a", "b"]).rows == [
        ["1, 2", "x", "1.000", "2.000", "-", "-"],
        ["1, 2", "y", "-", "-", "3.000", "4.000"],
    ]


def test_perturbation_rejects_a_single_sentence(compared):
    with pytest.raises(ToolkitError, match=r"at least two sentences, but .* contains 1\."):
        compared("the cat")


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


def test_draw_differences_has_panels_for_distance_and_angle():
    fig = draw_differences(WORDS)
    titles = [f"words of sentences 1 and {n}" for n in (2, 3)] + ["[CLS] of sentences"]
    assert [ax.get_title() for ax in fig.axes[::2]] == titles and len(fig.axes) == 6
    distances, angles = fig.axes[:2]
    assert [bar.get_height() for bar in distances.patches] == [0.5, 0.7, 0.5, 0.7]
    assert [bar.get_height() for bar in angles.patches] == [30.0, 40.0, 30.0, 40.0]
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["a", "b"]


def test_draw_differences_shares_a_scale_among_words_only():
    first, _, second, _, whole, _ = draw_differences(WORDS).axes
    assert first.get_ylim() == second.get_ylim() and whole.get_ylim()[1] < 0.05
    assert first.get_ylim()[1] > 0.9  # the highest bar of both

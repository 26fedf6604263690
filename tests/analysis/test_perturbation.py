import json
import math
from unittest.mock import Mock

import pytest
import torch

from toolkit.analysis.perturbation import (
    compare_vectors,
    plot_perturbation,
    split_words,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PerturbationConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.words import WordBoundaries


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


def test_perturbation_rejects_a_single_sentence(compared):
    with pytest.raises(ToolkitError, match=r"at least two sentences, but .* contains 1\."):
        compared("the cat")

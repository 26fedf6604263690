import pytest

from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.preprocessing.train_tokenizer import count_words, sample_items
from toolkit.data.text_files import FileChunk


@pytest.fixture
def piece(text_file):
    path = text_file("".join(f"The {n}\n" for n in range(100)))
    return FileChunk(path, 0, path.stat().st_size, True)


def test_a_share_of_the_items_is_spread_evenly(piece):
    found = sample_items([piece], PreprocessConfig(trainpref="x"), 0.1)
    assert found == [f"The {n}" for n in range(9, 100, 10)]


@pytest.mark.parametrize(("kind", "first"), [("sentencepiece", "the 0"), ("wordpiece", "The 0")])
def test_items_are_lowered_where_what_learns_from_them_does_not(piece, kind, first):
    config = PreprocessConfig(trainpref="x", lowercase=True, tokenizer=kind)
    assert sample_items([piece], config, 1.0)[0] == first


def test_a_word_without_end_is_cut_and_no_cut_is_seen_twice(text_file):
    path = text_file("a " + "x" * 1000 + " b\n" + "yz" * 200 + "\n")
    piece = FileChunk(path, 0, path.stat().st_size, True)
    found = sample_items([piece], PreprocessConfig(trainpref="x"), 1.0)
    assert found == [f"a {'x' * 256} {'x' * (1000 - 3 * 256)} b", f"{'yz' * 128} {'yz' * 72}"]


def test_words_are_counted_as_a_dictionary_sees_them(piece):
    counts = count_words([piece, piece], PreprocessConfig(trainpref="x", lowercase=True))
    assert (counts["the"], counts["7"], counts["The"], len(counts)) == (200, 2, 0, 101)

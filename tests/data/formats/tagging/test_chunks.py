import numpy as np

from toolkit.data.formats.tagging.chunks import cut, words_of


def test_a_long_sentence_is_cut_into_full_chunks_and_a_rest():
    chunks = cut(np.array([130, 3]), np.ones(133, np.int64), 60)
    assert chunks.begins.tolist() == [0, 60, 120, 130]
    assert chunks.words.tolist() == chunks.tokens.tolist() == [60, 60, 10, 3]


def test_chunks_hold_whole_words_of_several_pieces():
    chunks = cut(np.array([5]), np.array([2, 3, 1, 4, 1]), 5)
    assert chunks.words.tolist() == [2, 2, 1]
    assert chunks.tokens.tolist() == [5, 5, 1]


def test_every_word_is_in_exactly_one_chunk():
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 40, 200)
    chunks = cut(lengths, draw.integers(1, 7, lengths.sum()), 12)
    words = words_of(chunks, np.arange(len(chunks.begins)))
    assert words.tolist() == list(range(lengths.sum()))
    assert chunks.tokens.max() <= 12

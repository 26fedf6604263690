import numpy as np

from toolkit.data.formats.tagging.split import split_into_chunks, word_indices


def test_long_sentence_is_split_into_full_chunks_and_a_rest():
    chunks = split_into_chunks(np.array([130, 3]), np.ones(133, np.int64), 60)
    assert chunks.starts.tolist() == [0, 60, 120, 130]
    assert chunks.word_counts.tolist() == chunks.token_counts.tolist() == [60, 60, 10, 3]


def test_chunks_hold_whole_words_of_several_pieces():
    chunks = split_into_chunks(np.array([5]), np.array([2, 3, 1, 4, 1]), 5)
    assert chunks.word_counts.tolist() == [2, 2, 1]
    assert chunks.token_counts.tolist() == [5, 5, 1]


def test_every_word_is_in_exactly_one_chunk():
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 40, 200)
    chunks = split_into_chunks(lengths, draw.integers(1, 7, lengths.sum()), 12)
    words = word_indices(chunks, np.arange(len(chunks.starts)))
    assert words.tolist() == list(range(lengths.sum()))
    assert chunks.token_counts.max() <= 12

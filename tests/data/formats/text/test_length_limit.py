import numpy as np
import pytest

from toolkit.data.formats.text.binarize import apply_length_limit

IDS = np.arange(10)
LENGTHS = np.array([2, 5, 0, 3])  # 0 1 | 2 3 4 5 6 | | 7 8 9
WORDS = np.isin(IDS, [0, 2, 4, 7])  # where a word begins


def limit_items(policy, limit=3, starts=WORDS):
    limited = apply_length_limit(IDS, LENGTHS, limit, policy, starts)
    cut = np.split(limited.ids, np.cumsum(limited.lengths)[:-1])
    return [ids.tolist() for ids in cut], limited


def test_skip_leaves_items_out_and_counts_their_tokens():
    items, limited = limit_items("skip")
    assert items == [[0, 1], [], [7, 8, 9]]
    assert (limited.sources.tolist(), limited.overlength, limited.lost) == ([0, 2, 3], 1, 5)


def test_truncate_loses_the_tail_and_counts_it():
    items, limited = limit_items("truncate")
    assert items == [[0, 1], [2, 3, 4], [], [7, 8, 9]]
    assert (limited.sources.tolist(), limited.overlength, limited.lost) == ([0, 1, 2, 3], 1, 2)


def test_split_cuts_before_a_word_and_loses_nothing():
    items, limited = limit_items("split")
    assert items == [[0, 1], [2, 3], [4, 5, 6], [], [7, 8, 9]]
    assert (limited.sources.tolist(), limited.overlength, limited.lost) == ([0, 1, 1, 2, 3], 1, 0)


def test_split_fills_the_limit_if_a_word_starts_right_after_it():
    items, _ = limit_items("split", starts=np.isin(IDS, [0, 2, 4, 5, 7]))
    assert items == [[0, 1], [2, 3, 4], [5, 6], [], [7, 8, 9]]


def test_split_cuts_inside_a_word_longer_than_the_limit():
    items, _ = limit_items("split", limit=2, starts=np.zeros(10, bool))
    assert items == [[0, 1], [2, 3], [4, 5], [6], [], [7, 8], [9]]


def test_items_within_the_limit_are_unchanged():
    items, limited = limit_items("skip", limit=5)
    assert items == [[0, 1], [2, 3, 4, 5, 6], [], [7, 8, 9]]
    assert (limited.overlength, limited.lost) == (0, 0)


@pytest.mark.parametrize("policy", ["skip", "truncate", "split"])
def test_length_limit_keeps_or_counts_every_token(policy):
    draw = np.random.default_rng(0)
    lengths = draw.integers(0, 20, 200)
    ids = draw.integers(0, 50, lengths.sum())
    limited = apply_length_limit(ids, lengths, 7, policy, np.arange(50) % 3 == 0)
    assert limited.lengths.max() == 7
    assert limited.lengths.sum() == len(limited.ids) == len(ids) - limited.lost
    assert limited.overlength == (lengths > 7).sum()
    assert (np.diff(limited.sources) >= 0).all()

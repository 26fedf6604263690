import numpy as np
import pytest

from toolkit.data.formats.text.length_limit import apply_length_limit

IDS = np.arange(10)
LENGTHS = np.array([2, 5, 0, 3])  # 0 1 | 2 3 4 5 6 | | 7 8 9
WORDS = np.isin(IDS, [0, 2, 4, 7])  # where a word begins


def fitted(policy, limit=3, starts=WORDS):
    found = apply_length_limit(IDS, LENGTHS, limit, policy, starts)
    cut = np.split(found.ids, np.cumsum(found.lengths)[:-1])
    return [ids.tolist() for ids in cut], found


def test_skip_leaves_items_out_and_counts_their_tokens():
    items, found = fitted("skip")
    assert items == [[0, 1], [], [7, 8, 9]]
    assert (found.sources.tolist(), found.overlength, found.lost) == ([0, 2, 3], 1, 5)


def test_truncate_loses_the_tail_and_counts_it():
    items, found = fitted("truncate")
    assert items == [[0, 1], [2, 3, 4], [], [7, 8, 9]]
    assert (found.sources.tolist(), found.overlength, found.lost) == ([0, 1, 2, 3], 1, 2)


def test_split_cuts_before_a_word_and_loses_nothing():
    items, found = fitted("split")
    assert items == [[0, 1], [2, 3], [4, 5, 6], [], [7, 8, 9]]
    assert (found.sources.tolist(), found.overlength, found.lost) == ([0, 1, 1, 2, 3], 1, 0)


def test_split_fills_the_limit_if_a_word_starts_right_after_it():
    items, _ = fitted("split", starts=np.isin(IDS, [0, 2, 4, 5, 7]))
    assert items == [[0, 1], [2, 3, 4], [5, 6], [], [7, 8, 9]]


def test_split_cuts_inside_a_word_longer_than_the_limit():
    items, _ = fitted("split", limit=2, starts=np.zeros(10, bool))
    assert items == [[0, 1], [2, 3], [4, 5], [6], [], [7, 8], [9]]


def test_items_within_the_limit_are_unchanged():
    items, found = fitted("skip", limit=5)
    assert items == [[0, 1], [2, 3, 4, 5, 6], [], [7, 8, 9]]
    assert (found.overlength, found.lost) == (0, 0)


@pytest.mark.parametrize("policy", ["skip", "truncate", "split"])
def test_length_limit_keeps_or_counts_every_token(policy):
    draw = np.random.default_rng(0)
    lengths = draw.integers(0, 20, 200)
    ids = draw.integers(0, 50, lengths.sum())
    found = apply_length_limit(ids, lengths, 7, policy, np.arange(50) % 3 == 0)
    assert found.lengths.max() == 7
    assert found.lengths.sum() == len(found.ids) == len(ids) - found.lost
    assert found.overlength == (lengths > 7).sum()
    assert (np.diff(found.sources) >= 0).all()

import numpy as np
import pytest

from toolkit.data.formats.text import RUN_LENGTH, apply_length_limit, assign_splits
from toolkit.data.tokenizers.words import WordBoundaries


def selected(valid, test, count=16000):
    found = assign_splits("train", np.arange(count), valid, test)
    return {split: chosen for split, chosen, _ in found}


@pytest.mark.parametrize("valid, test", [(0.05, 0.0), (0.3, 0.1), (0.0, 0.5)])
def test_splits_have_the_given_fractions_and_every_item(valid, test):
    splits = selected(valid, test)
    assert sum(splits.values()).tolist() == [1] * 16000
    assert splits["valid"].mean() == pytest.approx(valid, abs=0.002)
    assert splits["test"].mean() == pytest.approx(test, abs=0.002)


def test_held_out_items_depend_on_their_position_alone():
    whole = selected(0.1, 0.1)
    for split, chosen, _ in assign_splits("train", np.arange(5000, 6000), 0.1, 0.1):
        assert (chosen == whole[split][5000:6000]).all()


def test_runs_differ_between_items_that_are_no_longer_neighbors():
    train, valid, _ = assign_splits("train", np.arange(1000), 0.1, 0.0)
    for _, chosen, runs in (train, valid):
        positions = np.flatnonzero(chosen)
        separated = np.diff(positions) > 1
        assert (np.diff(runs[positions]) != 0).tolist() == separated.tolist()


@pytest.mark.parametrize("valid, test", [(0.015, 0.0), (0.02, 0.02)])
def test_fractions_hold_over_parts_shorter_than_a_run(valid, test):
    shares = {"valid": 0, "test": 0, "train": 0}
    for part in range(200):
        for split, chosen, _ in assign_splits(
            "train", np.arange(42 * RUN_LENGTH), valid, test, part
        ):
            shares[split] += chosen.sum() / (200 * 42 * RUN_LENGTH)
    assert shares["valid"] == pytest.approx(valid, rel=0.03)
    assert shares["test"] == pytest.approx(test, rel=0.03)


def test_first_held_out_run_of_a_part_does_not_continue_the_part_before():
    parts = [[*assign_splits("train", np.arange(RUN_LENGTH), 0.2, 0.2, part)] for part in range(20)]
    for split in (1, 2):
        first = [runs[chosen] for _, chosen, runs in (part[split] for part in parts)]
        assert any(len(runs) for runs in first) and all((runs > 0).all() for runs in first)


IDS = np.arange(10)
LENGTHS = np.array([2, 5, 0, 3])  # 0 1 | 2 3 4 5 6 | | 7 8 9
WORDS = [0, 2, 4, 7]  # where a word begins


@pytest.mark.parametrize(
    ("policy", "limit", "words", "items", "lost"),
    [
        ("skip", 3, WORDS, [[0, 1], [], [7, 8, 9]], 5),
        ("truncate", 3, WORDS, [[0, 1], [2, 3, 4], [], [7, 8, 9]], 2),
        ("split", 3, WORDS, [[0, 1], [2, 3], [4, 5, 6], [], [7, 8, 9]], 0),
        ("split", 3, [0, 2, 4, 5, 7], [[0, 1], [2, 3, 4], [5, 6], [], [7, 8, 9]], 0),
        ("split", 2, [], [[0, 1], [2, 3], [4, 5], [6], [], [7, 8], [9]], 0),
        ("skip", 5, WORDS, [[0, 1], [2, 3, 4, 5, 6], [], [7, 8, 9]], 0),
    ],
)
def test_items_beyond_the_limit_follow_the_policy(policy, limit, words, items, lost):
    boundaries = WordBoundaries([(i in words, b"a") for i in IDS], ())
    kept, lengths, sources, overlength = apply_length_limit(IDS, LENGTHS, limit, policy, boundaries)
    cut = np.split(kept, np.cumsum(lengths)[:-1])
    assert [ids.tolist() for ids in cut] == items and len(IDS) - len(kept) == lost
    assert overlength == (limit < LENGTHS).sum()
    firsts = [IDS[LENGTHS[:i].sum() :][0] for i in sources if LENGTHS[i]]
    assert all(item[0] >= first for item, first in zip(filter(None, items), firsts, strict=True))

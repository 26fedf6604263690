import numpy as np
import pytest

from toolkit.data.formats.text.binarize import RUN_LENGTH, assign_splits


def selected_by_split(valid, test, count=16000):
    splits = assign_splits("train", np.arange(count), valid, test)
    return {share.split: share.selected for share in splits}


@pytest.mark.parametrize("valid, test", [(0.05, 0.0), (0.02, 0.02), (0.3, 0.1), (0.0, 0.5)])
def test_splits_have_the_given_fractions_and_every_item(valid, test):
    splits = selected_by_split(valid, test)
    assert sum(splits.values()).tolist() == [1] * 16000
    assert splits["valid"].mean() == pytest.approx(valid, abs=0.002)
    assert splits["test"].mean() == pytest.approx(test, abs=0.002)


def test_held_out_items_depend_on_their_position_alone():
    whole = selected_by_split(0.1, 0.1)
    late = {s.split: s.selected for s in assign_splits("train", np.arange(5000, 6000), 0.1, 0.1)}
    assert all((late[split] == whole[split][5000:6000]).all() for split in whole)


def test_short_texts_hold_out_a_run():
    assert selected_by_split(0.05, 0.0, count=11 * RUN_LENGTH)["valid"].sum() == RUN_LENGTH


def test_runs_differ_between_items_that_are_no_longer_neighbors():
    train, valid, _ = assign_splits("train", np.arange(1000), 0.1, 0.0)
    for share in (train, valid):
        positions = np.flatnonzero(share.selected)
        separated = np.diff(positions) > 1
        assert (np.diff(share.runs[positions]) != 0).tolist() == separated.tolist()


def test_only_the_training_text_is_held_out_of():
    (share,) = assign_splits("valid", np.arange(100), 0.1, 0.1)
    assert share.split == "valid"
    assert share.selected.all()


@pytest.mark.parametrize("valid, test", [(0.01, 0.0), (0.015, 0.0), (0.03, 0.0), (0.02, 0.02)])
def test_fractions_hold_over_parts_shorter_than_a_run(valid, test):
    splits = {"valid": 0, "test": 0, "train": 0}
    for part in range(200):
        for share in assign_splits("train", np.arange(42 * RUN_LENGTH), valid, test, part):
            splits[share.split] += share.selected.sum() / (200 * 42 * RUN_LENGTH)
    assert splits["valid"] == pytest.approx(valid, rel=0.03)
    assert splits["test"] == pytest.approx(test, rel=0.03)


def test_first_held_out_run_of_a_part_does_not_continue_the_part_before():
    splits = [
        list(assign_splits("train", np.arange(RUN_LENGTH), 0.2, 0.2, part)) for part in range(20)
    ]
    for split in (1, 2):
        first = [each[split].runs[each[split].selected] for each in splits]
        assert any(len(runs) for runs in first) and all((runs > 0).all() for runs in first)

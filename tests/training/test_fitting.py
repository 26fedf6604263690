import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.training.evaluation import evaluate_in_halves


class Numbers:
    """A loader whose batches are lists of their examples."""

    def evaluated(self, number):
        return np.arange(8) + 8 * number

    def collated(self, ids):
        return ids.tolist()


def seen_by(most, number=0, loader=None):
    """What is seen of a batch of eight where only `most` examples fit."""
    found = []

    def see(batch):
        if len(batch) > most:
            raise torch.OutOfMemoryError("Tried to allocate 2 GiB.")
        found.append(batch)

    loader = loader or Numbers()
    evaluate_in_halves(loader, number, Numbers().collated(Numbers().evaluated(number)), see)
    return found


def test_a_batch_that_fits_is_seen_as_it_is():
    assert seen_by(8) == [list(range(8))]


def test_a_batch_that_does_not_fit_is_seen_in_halves_each_example_once():
    assert seen_by(4, number=1) == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert seen_by(3) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_an_example_that_does_not_fit_ends_the_evaluation():
    with pytest.raises(ToolkitError, match=r"one did not \(Tried to allocate 2 GiB\). Lower"):
        seen_by(0)
    with pytest.raises(ToolkitError, match="an example must fit into memory to be evaluated"):
        seen_by(4, loader=object())


def test_other_errors_are_left_alone():
    def see(batch):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        evaluate_in_halves(Numbers(), 0, [], see)

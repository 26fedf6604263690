"""Words seen as the clock of a run."""

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import parse_words
from toolkit.training.callbacks.stopping import find_update
from toolkit.training.step import TrainingProgress


def test_dots_in_a_list_of_words_stand_for_equal_steps():
    assert parse_words("x", "1M,2M,...,4M,6M,...,10M") == [
        n * 10**6 for n in (1, 2, 3, 4, 6, 8, 10)
    ]


@pytest.mark.parametrize("text", ["2M,1M", "1M,...,3M", "1M,2M,...,4.5M", "1M,2M,...", "ten", ""])
def test_a_list_of_words_that_does_not_rise_in_steps_is_an_error(text):
    with pytest.raises(ToolkitError, match="rising numbers of words"):
        parse_words("checkpoint.save_at_words", text)


def test_words_are_found_and_counted_alike_across_epochs_and_resumption():
    epoch = np.array([0, 5, 9, 10, 17, 20])  # words before each of five micro-batches, and all
    place, seen = TrainingProgress(), []
    for _ in range(7):
        place = place.advance(2, 5, epoch)
        seen.append(place.words)
    assert seen == [9, 17, 20, 29, 37, 40, 49]
    middle = TrainingProgress(update=1, epoch=1, consumed=2, words=9)
    for start in (TrainingProgress(), middle):
        assert [find_update(n, "x", lambda _: epoch, 2, start) for n in (10, 20, 21, 49)] == [
            *(2, 3, 4, 7)
        ]


def test_a_run_that_began_without_a_count_has_no_words():
    with pytest.raises(ToolkitError, match="from the first update"):
        find_update(9, "--max-words", lambda _: np.arange(9), 1, TrainingProgress(update=3))

import pytest

from toolkit.distributed import World
from toolkit.training.limits import total_updates
from toolkit.training.step import Place


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({"max_update": 7, "max_epoch": None}, 7),
        ({"max_update": 7, "max_epoch": 1}, 3),
        ({"max_update": 7, "max_epoch": 9}, 7),
        ({"max_update": None, "max_epoch": 3}, 9),
    ],
)
def test_the_limit_that_is_reached_first_counts(config, memory, limits, wanted):
    training = config(update_freq=4, **limits).training
    assert total_updates(training, memory([None] * 11), World(), Place()) == wanted


def test_updates_already_taken_count_as_they_were(config, memory):
    training = config(update_freq=4, max_epoch=2).training
    place = Place(update=5, epoch=1, consumed=5)
    assert total_updates(training, memory([None] * 11), World(), place) == 5 + 2 + 3

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import TrainingConfig


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (
            {"micro_batches_per_update": 0},
            r"training\.micro_batches_per_update must be at least 1, but is 0",
        ),
        (
            {"micro_batches_per_update": 8, "update_freq": 2},
            r"training\.update_freq must be left out where training\.micro_batches_per_update is "
            r"given",
        ),
        ({"sharding": "zero"}, r"training\.sharding must be one of none, full, but is 'zero'"),
    ],
)
def test_a_value_out_of_range_names_its_path_and_the_rule(values, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        TrainingConfig(**values)


@pytest.mark.parametrize(("ranks", "each"), [(1, 36), (2, 18), (4, 9), (36, 1)])
def test_the_ranks_share_the_global_batches(ranks, each):
    assert TrainingConfig(micro_batches_per_update=36).micro_batches_per_rank(ranks) == each


def test_without_global_batches_each_rank_takes_update_freq():
    assert TrainingConfig(update_freq=3).micro_batches_per_rank(7) == 3


def test_ranks_that_do_not_divide_are_answered_with_those_that_do():
    with pytest.raises(ToolkitError, match=r"is 36 for 5\. Start one of 1, 2, 3, 4, 6, 9, 12, 18"):
        TrainingConfig(micro_batches_per_update=36).micro_batches_per_rank(5)

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.training.callbacks.non_finite import (
    RankConsistencyCheck,
    minority_ranks,
    ranks_with_other_norm,
    sum_bits,
)


def test_sum_bits_changes_with_any_bit():
    p = torch.linspace(-1, 1, 1000)
    for place, bit in ((0, 0), (999, 31), (500, 12)):
        other = p.clone()
        other.view(torch.int32)[place] ^= -(2**31) if bit == 31 else 2**bit
        assert sum_bits(other) != sum_bits(p)
    assert sum_bits(p.clone()) == sum_bits(p)


def test_minority_ranks_names_the_odd_one_of_three_and_the_second_of_two():
    assert minority_ranks(torch.tensor([[1, 2], [1, 2], [1, 3]])) == [2]
    assert minority_ranks(torch.tensor([[0, 2], [1, 2], [1, 2]])) == [0]
    assert minority_ranks(torch.tensor([[1, 2], [1, 3]])) == [1]
    assert minority_ranks(torch.tensor([[1, 2], [1, 2]])) == []


def test_ranks_with_other_norm_tolerates_only_rounding():
    nan = float("nan")
    assert ranks_with_other_norm([1.0, 1.0 + 1e-7, 1.0]) == ranks_with_other_norm([nan, nan]) == []
    assert ranks_with_other_norm([1.0, 1.0 + 1e-5, 1.0]) == [1]
    assert ranks_with_other_norm([1.0, nan, 1.0]) == [1]


def test_different_gradient_norm_is_reported(ranks, make_trainer, batches):
    def check(world):
        trainer = make_trainer(world=world)
        step = trainer.step([batches[world.rank]], 2)
        object.__setattr__(
            step, "outcome", step.outcome._replace(norm=step.outcome.norm * (1 + world.rank))
        )
        with pytest.raises(ToolkitError, match=r"the same gradient norm, but after update 1 \(ep"):
            RankConsistencyCheck(trainer, 1)(step)

    ranks(check)

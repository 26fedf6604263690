from __future__ import annotations

import math

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CRITERIA
from toolkit.criteria import Classes, Values


def total(prediction, name="mean_squared_error"):
    entry = CRITERIA[name]
    return entry.factory(entry.config)({"score": prediction})["score"]


@pytest.mark.parametrize("name", ["mean_squared_error", "cross_entropy"])
def test_loss_of_numbers_is_their_squared_error(name):
    values = torch.tensor([1.0, -2.0, 7.0], requires_grad=True)
    loss = total(Values(values, torch.tensor([0.5, 0.0, math.nan])), name)
    loss.backward()
    assert loss.item() == 0.25 + 4.0
    assert values.grad.tolist() == [1.0, -4.0, 0.0]


def test_squared_error_of_bf16_is_summed_in_fp32():
    values = torch.ones(1000, dtype=torch.bfloat16)
    assert total(Values(values, torch.zeros(1000))).item() == 1000.0


def test_mean_squared_error_rejects_classes():
    classes = Classes(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
    with pytest.raises(
        ToolkitError, match=r"score predicts classes\. Choose --criterion cross_entropy\."
    ):
        total(classes)

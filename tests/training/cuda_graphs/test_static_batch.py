from __future__ import annotations

import pytest
import torch

from toolkit.models.interface import Inputs
from toolkit.tasks.examples import MaskedBatch
from toolkit.training.cuda_graphs import batch_signature, fill, make_static

CPU = torch.device("cpu")


def make_batch(tokens=(2, 3), padding=None, rows=4, weight=4.0, **inputs):
    given = Inputs(torch.arange(tokens[0] * tokens[1]).view(tokens), padding=padding, **inputs)
    targets = torch.arange(rows)
    return MaskedBatch(given, targets, targets, {"mlm": weight}, tokens[0], 6)


DIFFERENT = {
    "shape": {"tokens": (3, 2)},
    "padding": {"padding": torch.zeros(2, 3, dtype=torch.bool)},
    "type of padding": {"padding": torch.zeros(2, 3)},
    "number of selected positions": {"rows": 5},
    "highest position": {"max_position": 7},
    "a weight of zero": {"weight": 0.0},
}


@pytest.mark.parametrize("options", DIFFERENT.values(), ids=DIFFERENT)
def test_batches_that_need_other_graphs_have_other_signatures(options):
    assert batch_signature(make_batch(**options)) != batch_signature(make_batch())


def test_values_and_numbers_of_the_host_are_not_in_the_signature():
    other = make_batch(weight=3.0)._replace(targets=torch.zeros(4).long(), sentences=1, tokens=2)
    assert batch_signature(other) == batch_signature(make_batch())


def test_static_batch_takes_the_values_of_another_at_the_same_addresses():
    static = make_static(make_batch(), CPU)
    before = static.inputs.tokens
    other = make_batch()._replace(inputs=Inputs(torch.full((2, 3), 9)))
    fill(static, other)
    assert static.inputs.tokens is before and (before == 9).all()
    assert torch.equal(static.targets, other.targets)


def test_numbers_of_the_host_cannot_enter_a_graph():
    batch = make_static(make_batch(), CPU)
    with pytest.raises(TypeError, match=r"captured in a CUDA graph cannot read batch\.tokens"):
        batch.inputs.tokens.sum() / batch.tokens
    with pytest.raises(TypeError, match=r"cannot read batch\.sentences"):
        bool(batch.sentences)
    with pytest.raises(TypeError, match=r"cannot read batch\.weights"):
        float(batch.weights["mlm"])

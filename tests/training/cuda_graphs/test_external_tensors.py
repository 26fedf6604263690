from __future__ import annotations

import gc
import weakref
from functools import lru_cache

import pytest
import torch

from toolkit.training.graph_recorder import ExternalTensors


@lru_cache(maxsize=1)
def table(length):
    return torch.arange(length).float()


def test_tensors_from_outside_are_found_and_those_made_inside_are_not():
    weight, x = torch.nn.Parameter(torch.ones(3)), torch.ones(3)
    with ExternalTensors() as seen:
        y = (weight * x).exp()
        y.sum().backward()
    assert {id(tensor) for tensor in seen.found.values()} == {id(weight), id(x)}


def test_a_view_stands_for_the_memory_behind_it():
    x = torch.ones(3)
    with ExternalTensors() as seen:
        x[1:] * 2
        x.view(3, 1) + 1
    assert [tensor.untyped_storage().data_ptr() for tensor in seen.found.values()] == [x.data_ptr()]


@pytest.mark.slow
def test_a_cached_table_outlives_its_cache():
    table(4)
    with ExternalTensors() as seen:
        table(4) + 1
    kept = weakref.ref(table(4))
    table(5)
    gc.collect()
    assert kept() is not None
    del seen
    gc.collect()
    assert kept() is None

from __future__ import annotations

import numpy as np
import pytest

from toolkit.tasks.examples import pad_to_multiple


@pytest.mark.parametrize(("count", "rows"), [(0, 64), (1, 64), (64, 64), (65, 128)])
def test_pad_to_multiple_keeps_all_values_and_repeats_shapes(count, rows):
    padded = pad_to_multiple(np.arange(count), -9, 64)
    assert padded.tolist() == [*range(count), *[-9] * (rows - count)]


@pytest.mark.parametrize(("count", "rows"), [(0, 1), (1, 1), (65, 65)])
def test_pad_to_multiple_of_one_adds_a_row_only_if_there_is_none(count, rows):
    padded = pad_to_multiple(np.arange(count), -9, 1)
    assert padded.tolist() == [*range(count), *[-9] * (rows - count)]

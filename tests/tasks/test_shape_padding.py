from __future__ import annotations

import numpy as np
import pytest

from toolkit.tasks.shape_padding import pad_to_multiple


@pytest.mark.parametrize(("count", "rows"), [(0, 64), (1, 64), (64, 64), (65, 128)])
def test_numbers_of_rows_come_again_and_none_is_dropped(count, rows):
    found = pad_to_multiple(np.arange(count), -9, fixed_shapes=True)
    assert found.tolist() == [*range(count), *[-9] * (rows - count)]


@pytest.mark.parametrize(("count", "rows"), [(0, 1), (1, 1), (65, 65)])
def test_without_stable_shapes_one_row_is_the_least(count, rows):
    assert pad_to_multiple(np.arange(count), -9, fixed_shapes=False).tolist() == [
        *range(count),
        *[-9] * (rows - count),
    ]

import numpy as np
import pytest

from toolkit.common.arrays import pack_rows, ragged_arange, split_rows

NOTHING = np.zeros(0, np.int64)


@pytest.mark.parametrize("starts", [np.array([7, 0, 9, 3]), 0])
def test_ragged_arange_equals_python_ranges(starts):
    counts = np.array([2, 0, 3, 1])
    firsts = np.broadcast_to(starts, 4).tolist()
    pairs = zip(firsts, counts.tolist(), strict=True)
    expected = [number for first, count in pairs for number in range(first, first + count)]
    assert ragged_arange(starts, counts).tolist() == expected


@pytest.mark.parametrize("counts", [NOTHING, np.zeros(3, np.int64)])
def test_ragged_arange_of_nothing_is_empty(counts):
    found = ragged_arange(np.zeros_like(counts), counts)
    assert (len(found), found.dtype) == (0, np.int64)


def test_packed_rows_are_split_again():
    rows = [[1, 2], [], [3]]
    values, lengths = pack_rows(rows)
    assert (values.tolist(), lengths.tolist()) == ([1, 2, 3], [2, 0, 1])
    assert [row.tolist() for row in split_rows(values, lengths)] == rows
    assert split_rows(*pack_rows([])) == []

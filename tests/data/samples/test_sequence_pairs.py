from __future__ import annotations

import numpy as np
import pytest

from toolkit.data.samples.sequence_pairs import (
    TokenColumn,
    TokenTexts,
    join_pairs,
    truncate_longest_first,
)
from toolkit.data.storage.column_files import Column
from toolkit.data.storage.data_folder import MemoryPart, make_synthetic_text

WORDS = make_synthetic_text(40, 1).vocabulary  # [PAD] 0, [CLS] 1, [SEP] 2


def popped(first, second, most):
    """Token by token, as the rule says."""
    while first + second > most:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


@pytest.mark.parametrize("most", [0, 1, 4, 5, 9])
def test_truncation_equals_removing_token_by_token(most):
    first, second = (grid.reshape(-1) for grid in np.meshgrid(np.arange(12), np.arange(12)))
    got = truncate_longest_first(first, second, most)
    want = [popped(a, b, most) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    assert list(zip(*(side.tolist() for side in got), strict=True)) == want


def test_pairs_of_any_length_are_joined_with_special_tokens():
    first = TokenTexts(np.array([11, 12, 13, 21]), np.array([3, 1]))
    second = TokenTexts(np.array([31, 32]), np.array([0, 2]))
    got = join_pairs(first, second, WORDS)
    assert got.tokens.tolist() == [[1, 11, 12, 13, 2, 2], [1, 21, 2, 31, 32, 2]]
    assert got.segments.tolist() == [[0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 1, 1]]
    assert got.lengths.tolist() == [6, 6] and got.second_starts.tolist() == [5, 3]
    assert not got.padding.any()


def test_single_texts_are_padded_to_the_longest():
    got = join_pairs(TokenTexts(np.array([11, 12, 13, 21]), np.array([3, 1])), None, WORDS)
    assert got.tokens.tolist() == [[1, 11, 12, 13, 2], [1, 21, 2, 0, 0]]
    assert got.padding.tolist() == [[False] * 5, [False] * 3 + [True] * 2]
    assert not got.segments.any()


def test_token_column_reads_items_by_number_and_cuts_them():
    parts = [
        MemoryPart(np.arange(10), np.array([4, 5, 1])),
        MemoryPart(np.arange(20, 26), np.array([3, 3])),
    ]
    column = TokenColumn(Column("tokens", parts))
    got = column.take(np.array([4, 0, 1]), np.array([2, 0, 1]))
    assert got.ids.tolist() == [23, 24, 4] and got.lengths.tolist() == [2, 0, 1]
    assert len(column.lengths) == 5

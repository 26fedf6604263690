"""Fault 24: inconsistent files of fairseq, which have no checksums."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest

from tests.helpers.fairseq_files import index_bytes, write_items
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.fairseq import FairseqColumnPart

EXTREMES = [-1, -(2**31), -(2**63), 2**31, 2**62, 2**63 - 1]


@pytest.fixture
def fairseq(tmp_path):
    """The stem of a part of three items."""
    write_items(tmp_path / "train", [[7, 8, 2], [2], [9, 2]])
    return tmp_path / "train"


def use_fairseq(stem):
    part = FairseqColumnPart(stem, "train", symbols=20, sep=2)
    part.take(np.arange(part.elements)[None], part.offsets[:1], part.offsets[-1:])
    return part.document_starts


def refused(use, stem):
    """Assert that using it ends in a user error and allocates almost no memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ToolkitError) as caught:
            use(stem)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    return str(caught.value)


@pytest.mark.parametrize("value", [-1, -(2**31), 2**31 - 1, 0])
@pytest.mark.parametrize("place", range(3))
def test_impossible_lengths_in_a_fairseq_index_are_rejected(fairseq, place, value):
    content = bytearray(index_bytes([3, 1, 2]))
    content[26 + 4 * place : 30 + 4 * place] = struct.pack("<i", value)
    fairseq.with_suffix(".idx").write_bytes(content)
    assert "train.idx must" in refused(use_fairseq, fairseq)


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("place", range(3))
def test_impossible_pointers_in_a_fairseq_index_are_rejected(fairseq, place, value):
    content = bytearray(index_bytes([3, 1, 2]))
    content[38 + 8 * place : 46 + 8 * place] = struct.pack("<q", value)
    fairseq.with_suffix(".idx").write_bytes(content)
    assert "train.idx must" in refused(use_fairseq, fairseq)


@pytest.mark.parametrize("ending", ["bin", "idx"])
def test_truncated_fairseq_files_are_rejected(fairseq, ending):
    path = fairseq.with_suffix(f".{ending}")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refused(use_fairseq, fairseq)

"""Taps as sources of maps: views that read what a gather by offset reads."""

import torch

from toolkit.nn.attention.inputs import Offsets, SequenceContext, scatter_to_diagonals
from toolkit.nn.ops.kernel_inputs import KEY_TAPS, MAP, QUERY_TAPS, to_rows, view_map, view_maps

BATCH, HEADS, LENGTH = 2, 3, 5


def make_taps():
    torch.manual_seed(0)
    return torch.randn(HEADS, BATCH, LENGTH, 2 * LENGTH).transpose(0, 1)


def test_taps_of_queries_are_read_by_the_offset_of_the_key():
    taps, i = make_taps(), torch.arange(LENGTH)
    index = (i[None, :] - i[:, None] + LENGTH - 1).expand(BATCH, HEADS, -1, -1)
    expected = taps.gather(-1, index)
    assert torch.equal(view_map(taps, QUERY_TAPS), expected)
    assert torch.equal(view_map(taps, KEY_TAPS), expected.mT)
    assert view_map(taps, QUERY_TAPS).data_ptr() == taps[0, 0, 0, LENGTH - 1 :].data_ptr()


def test_one_more_tap_than_offsets_changes_no_score():
    taps, sequence = make_taps(), SequenceContext(Offsets(None, LENGTH, torch.device("cpu")))
    scores = scatter_to_diagonals(taps, sequence.offsets)
    assert torch.equal(scores, scatter_to_diagonals(taps[..., :-1], sequence.offsets))
    assert torch.equal(scores, view_map(taps, QUERY_TAPS))


def test_taps_are_copied_only_if_their_rows_are_not_contiguous():
    taps = make_taps()
    assert to_rows(taps, QUERY_TAPS) is taps
    strided = taps.mT.contiguous().mT
    assert torch.equal(
        view_map(to_rows(strided, QUERY_TAPS), QUERY_TAPS), view_map(taps, QUERY_TAPS)
    )
    maps = view_maps([taps, strided], [MAP, MAP])
    assert maps[0] is taps and maps[1] is strided

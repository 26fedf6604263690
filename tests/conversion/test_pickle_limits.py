"""Files of torch.save that a loader could neither read in time nor keep in memory."""

from __future__ import annotations

import pickle
import zipfile

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.conversion.pickle_limits import MAX_OPERATIONS, MAX_TUPLE, find_excess, open_checked

ZERO, KEEP, AGAIN = b"K\x00", b"q\x01", b"h\x01"
EMPTY_DICT, AS_KEY = b"}", ZERO + b"s."


def excess(operations):
    return find_excess(b"\x80\x02" + operations)


def test_contents_of_checkpoints_have_no_excess():
    content = {"w": [torch.Size([2, 3]), (1, (2, (3,))), {"a": (1,) * 99}], (1, 2): "key"}
    for protocol in range(6):
        assert find_excess(pickle.dumps(content, protocol)) == ""


def test_tuples_that_few_bytes_expand_are_found():
    found = f"a tuple of more than {MAX_TUPLE:,} items"
    assert excess(EMPTY_DICT + ZERO + b"\x85" * 1_000_000 + AS_KEY) == found  # ((((...,),),),)
    pairs = (KEEP + AGAIN + b"\x86") * 40  # a pair of the pair before, twice
    assert excess(EMPTY_DICT + ZERO + pairs + AS_KEY) == found
    assert excess(b"(" + ZERO * MAX_TUPLE + b"t.") == found
    assert excess(b"(" + ZERO * (MAX_TUPLE - 1) + b"t.") == ""


def test_tuples_of_one_level_do_not_add_up():
    assert excess(b"](" + (ZERO + b"\x85") * 5000 + b"e.") == ""


def test_operations_are_limited():
    assert excess(b"N0" * MAX_OPERATIONS + b"N.") == f"more than {MAX_OPERATIONS:,} operations"


@pytest.mark.parametrize("zipped", [True, False])
def test_excess_is_found_in_both_forms_of_files(tmp_path, zipped):
    path = tmp_path / "model.pt"
    torch.save({"a": (1,) * 2000}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ToolkitError, match=r"model\.pt must contain a model, but its pickle has"):
        open_checked(path).__enter__()


def test_compressed_archive_is_rejected_unread(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"w": torch.zeros(1 << 20)}, path)
    with zipfile.ZipFile(path) as plain:
        members = {name: plain.read(name) for name in plain.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    with pytest.raises(ToolkitError, match=r"must not be compressed, but expands from .* to 4,19"):
        open_checked(path).__enter__()

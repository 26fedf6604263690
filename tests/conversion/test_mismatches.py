import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.conversion.mismatches import Mismatch, check_none, compare_tensors


def test_matching_tensors_are_no_mismatch():
    found = {"a": torch.ones(2, 3), "b": torch.ones(())}
    assert compare_tensors(found, {"a": (2, 3), "b": ()}, "x") == []
    check_none("x", [])


def test_compare_tensors_lists_missing_misshapen_and_extra():
    found = {"a": torch.ones(2, 3), "c": torch.ones(4), "d": torch.ones(())}
    assert compare_tensors(found, {"a": (3, 2), "b": (5,)}, "x") == [
        Mismatch("missing tensor", "x: b", "-", "5"),
        Mismatch("misshapen tensor", "x: a", "2 x 3", "3 x 2"),
        Mismatch("extra tensor", "x: c", "4", "-"),
        Mismatch("extra tensor", "x: d", "one number", "-"),
    ]


def test_mismatches_are_printed_before_the_error(capsys):
    problems = [Mismatch("setting", "k", "1", "2"), Mismatch("extra tensor", "x: a", "3", "-")]
    with pytest.raises(
        ToolkitError, match=r"src cannot be converted .* 2 mismatches \(setting, extra ten"
    ):
        check_none("src", problems)
    head, *rows = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert head == ["kind", "where", "found", "required"]
    assert rows == [["setting", "k", "1", "2"], ["extra", "tensor", "x:", "a", "3", "-"]]

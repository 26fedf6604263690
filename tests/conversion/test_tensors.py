import pytest
import torch

from toolkit.conversion.tensors import Mismatch, compare_tensors, compare_tied


@pytest.mark.parametrize(
    ("tensor", "found"),
    [
        (torch.ones(2, dtype=torch.long), "int64"),
        (torch.ones(2).to(torch.float8_e4m3fn), "float8_e4m3fn"),
        (torch.tensor([1, torch.nan]), "NaN or infinity"),
    ],
)
def test_tensors_that_are_no_finite_weights_are_mismatches(tensor, found):
    [problem] = compare_tensors({"a": tensor}, {"a": (2,)}, "x")
    assert (problem.kind, problem.found) == ("unusable tensor", found)
    assert compare_tensors({"a": torch.ones(2, dtype=torch.float16)}, {"a": (2,)}, "x") == []


def test_tied_tensors_of_another_type_are_not_equal():
    one, tied = torch.ones(2), {"copy": "w"}
    assert compare_tied({"copy": one.clone()}, tied, {"w": one}, "x") == []
    for copy, tensors in (
        (one.to(torch.float8_e4m3fn), {"w": one}),
        (one, {}),
        (one + 1, {"w": one}),
    ):
        found = compare_tied({"copy": copy}, tied, tensors, "x")
        assert found == [Mismatch("untied tensor", "x: copy", "others", "as w")]

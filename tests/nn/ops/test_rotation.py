"""Rotation of pairs of columns as one operation, compared with the form that is compiled."""

from __future__ import annotations

import pytest
import torch

from toolkit.nn.ops.rotation import compute_rotations, rotate


@pytest.mark.parametrize("strided", [False, True])
def test_rotation_as_one_operation_equals_the_compiled_form_and_its_gradient(monkeypatch, strided):
    torch.manual_seed(0)
    ids = torch.tensor([[0, 1, 2], [7, -1, 30]])
    rotations = compute_rotations(ids, 6, 10.0, torch.float64)
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64).transpose(1, 2)
    x = (x if strided else x.contiguous()).requires_grad_()
    weight = torch.randn(2, 4, 3, 6, dtype=torch.float64)
    found = []
    for compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda compiling=compiling: compiling)
        y = rotate(x, rotations)
        found.append((y, *torch.autograd.grad((y * weight).sum(), x)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(found[0][0].norm(dim=-1), x.norm(dim=-1))

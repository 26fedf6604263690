"""Packed linear maps compared with nn.Linear."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from toolkit.nn.ops.linear import (
    PackedLinear,
    pack_linear,
    pack_linear_layers,
    supports_packing,
)

DTYPES = [torch.float32, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 2e-2}


def linear(dtype, bias=True):
    torch.manual_seed(0)
    layer = nn.Linear(33, 17, bias=bias).to(dtype).requires_grad_(False)
    if not supports_packing(layer.weight):
        pytest.skip(f"this processor or this torch has no packed products of {dtype}")
    return layer


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("shape", [(1, 33), (0, 33), (4, 5, 33), (2, 70, 33)], ids=str)
def test_packed_linear_equals_nn_linear_for_any_number_of_rows(dtype, bias, shape):
    plain = linear(dtype, bias)
    x = torch.randn(shape, dtype=dtype)
    y = pack_linear(plain.weight, plain.bias)(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y, plain(x), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_packed_linear_accepts_strided_inputs(dtype):
    plain = linear(dtype)
    for x in (torch.randn(6, 66, dtype=dtype)[:, ::2], torch.randn(33, 6, dtype=dtype).T):
        y = pack_linear(plain.weight, plain.bias)(x)
        torch.testing.assert_close(y, plain(x), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_pack_linear_leaves_unsupported_weights_unchanged():
    model = nn.Sequential(nn.Linear(4, 4).double(), nn.LayerNorm(4))
    pack_linear_layers(model)
    assert type(model[0]) is nn.Linear
    assert pack_linear(torch.zeros(3, 4, dtype=torch.float16)) is None
    assert pack_linear(torch.zeros(3, 4, device="meta")) is None


def test_pack_linear_returns_none_without_onednn(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert pack_linear(torch.zeros(3, 4)) is None


def test_pack_linear_layers_packs_shared_maps_once_and_skips_subclasses():
    linear(torch.float32)

    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    shared = nn.Linear(4, 4)
    model = nn.ModuleList([nn.Sequential(shared), nn.Sequential(shared), Scaled(4, 4)])
    x = torch.randn(3, 4)
    with torch.no_grad():
        before = [part(x) for part in model]
        pack_linear_layers(model)
        assert model[0][0] is model[1][0] and isinstance(model[0][0], PackedLinear)
        assert isinstance(model[2], Scaled)
        for part, expected in zip(model, before, strict=True):
            torch.testing.assert_close(part(x), expected, atol=1e-6, rtol=1e-6)

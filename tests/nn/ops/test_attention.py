"""Attention by batched products compared with the plain operations and with torch's SDPA."""

from __future__ import annotations

import pytest
import torch

from toolkit.nn.ops import attention
from toolkit.nn.ops.attention import (
    BatchedProducts,
    attend,
    mask_padding_keys,
    products_are_faster,
)
from toolkit.nn.ops.dispatch import switched_off
from toolkit.nn.ops.dropout import apply_keep_mask, draw_keep_mask, round_rate

B, H, S, K = 2, 3, 5, 4
SCALE, RATE = 0.5, 0.4


def inputs(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    q, k, v = (torch.randn(B, H, S, K, dtype=dtype, requires_grad=True) for _ in range(3))
    return q, k, v, torch.randn(B, H, S, S, dtype=dtype, requires_grad=True)


def reference(q, k, v, bias, padding, rate):
    """The operations of attention, one after another."""
    weights = mask_padding_keys(SCALE * (q @ k.mT) + bias, padding).softmax(-1)
    if rate:
        keep = draw_keep_mask(weights.shape, rate) != 0
        weights = weights * keep / (1 - round_rate(rate))
    return weights @ v


PADDING = torch.tensor([[False] * S, [False] * 3 + [True] * 2])


@pytest.mark.parametrize("rate", [0.0, RATE])
@pytest.mark.parametrize("padding", [None, PADDING])
def test_batched_products_equal_the_plain_operations_and_their_gradients(rate, padding):
    parts = inputs()
    results = []
    for path in (reference, lambda *a: attend(*a[:-1], scale=SCALE, dropout=a[-1])):
        torch.manual_seed(1)
        context = path(*parts, padding, rate)
        results.append([context, *torch.autograd.grad(context.sin().sum(), parts)])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-10)


@torch.inference_mode()
def test_keys_that_a_cache_keeps_in_fp32_are_read_by_torchs_attention_too():
    q, k, v, bias = inputs(torch.float32)
    found = []
    for paths in ((), ("attention",)):
        with switched_off(*paths):
            found.append(attend(q.bfloat16(), k, v, bias, PADDING, scale=SCALE, dropout=0.0))
    torch.testing.assert_close(*found, atol=0.02, rtol=0.02)


@pytest.mark.slow
def test_batched_products_pass_gradcheck():
    def context(*parts):
        torch.manual_seed(1)
        return attend(*parts, PADDING, scale=SCALE, dropout=RATE)

    assert torch.autograd.gradcheck(context, inputs())


def test_bias_shared_by_the_batch_gets_the_summed_gradient():
    q, k, v, bias = inputs()
    shared = bias[:1].detach().requires_grad_()
    attend(q, k, v, shared, None, scale=SCALE, dropout=0.0).sin().sum().backward()
    wide = shared.detach().expand(B, H, S, S).clone().requires_grad_()
    attend(q, k, v, wide, None, scale=SCALE, dropout=0.0).sin().sum().backward()
    torch.testing.assert_close(shared.grad, wide.grad.sum(0, keepdim=True))


def test_attention_in_bf16_is_within_rounding_of_fp32():
    full = inputs(torch.float32)
    half = [part.detach().bfloat16().requires_grad_() for part in full]
    results = []
    for parts in (full, half):
        torch.manual_seed(1)
        context = attend(*parts, PADDING, scale=SCALE, dropout=RATE)
        results.append([context, *torch.autograd.grad(context.float().square().sum(), parts)])
    for fp32, bf16 in zip(*results, strict=True):
        atol = 0.05 * fp32.abs().max().item()
        torch.testing.assert_close(bf16.float(), fp32, atol=atol, rtol=0)


@pytest.mark.parametrize("keys", [5, 32])
def test_softmax_of_bf16_is_the_rounded_one_of_fp32(keys):
    scores = torch.randn(2, 3, 4, keys).bfloat16()
    expected = scores.float().softmax(-1).bfloat16()
    torch.testing.assert_close(attention.softmax(scores), expected)


@pytest.mark.parametrize("padding", [None, PADDING])
@pytest.mark.parametrize("biased", [False, True])
def test_torch_sdpa_equals_batched_products(monkeypatch, padding, biased):
    q, k, v, bias = (part.detach() for part in inputs())
    parts = q, k, v, bias if biased else None, padding
    expected = BatchedProducts.apply(*parts, SCALE, 0.0)
    monkeypatch.setattr(attention, "products_are_faster", lambda *_: False)
    torch.testing.assert_close(attend(*parts, scale=SCALE, dropout=0.0), expected)


def test_sdpa_is_chosen_for_fp32_inference_without_a_bias_only():
    q, _, _, bias = inputs(torch.float32)
    assert products_are_faster(q, None, 0.0)
    with torch.no_grad():
        assert not products_are_faster(q, None, 0.0)
        assert products_are_faster(q, bias, 0.0) and products_are_faster(q.bfloat16(), None, 0.0)


def test_keep_mask_drops_infinities():
    x = torch.tensor([1.5, float("inf"), -2.0])
    keep = torch.tensor([-1, 0, -1], dtype=torch.int16)
    assert apply_keep_mask(x, keep).tolist() == [1.5, 0.0, -2.0]

"""Products with a vector for each offset, in blocks, compared with one product for each pair."""

from __future__ import annotations

import pytest
import torch

from toolkit.nn.ops.offsets import attention as module
from toolkit.nn.ops.offsets.attention import OffsetProduct, multiply_backward, write_products

B, H, K = 2, 3, 4


def make_product(length: int, *, by_key: bool) -> OffsetProduct:
    x = torch.randn(B, H, length, K, dtype=torch.float64)
    vectors = torch.randn(H, 2 * length - 1, K, dtype=torch.float64)
    return OffsetProduct(x, vectors, by_key)


def multiply_pairs(product: OffsetProduct) -> torch.Tensor:
    """x_i . y_{j-i} of queries i, or x_j . y_{i-j} of keys j, from the equations."""
    length = product.x.shape[2]
    positions = torch.arange(length)
    offsets = positions - positions[:, None]  # of a row of x: the other position - its own
    scores = torch.einsum("bhrk,hrck->bhrc", product.x, product.vectors[:, offsets + length - 1])
    return scores.mT if product.by_key else scores


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8])
def test_products_in_blocks_equal_products_of_each_pair(monkeypatch, length):
    monkeypatch.setattr(module, "BLOCK", 3)
    torch.manual_seed(0)
    several = [make_product(length, by_key=by_key) for by_key in (False, True, True)]
    scores = torch.empty(B, H, length, length, dtype=torch.float64)
    write_products(scores, several)
    torch.testing.assert_close(scores, sum(map(multiply_pairs, several)), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("length", [2, 4, 7])
def test_gradients_in_blocks_equal_those_of_each_pair(monkeypatch, length, by_key):
    monkeypatch.setattr(module, "BLOCK", 3)
    torch.manual_seed(0)
    product = make_product(length, by_key=by_key)
    gradient = torch.randn(B, H, length, length, dtype=torch.float64)
    leaves = [tensor.clone().requires_grad_() for tensor in product[:2]]
    multiply_pairs(OffsetProduct(*leaves, by_key)).backward(gradient)
    for actual, leaf in zip(multiply_backward(gradient, product), leaves, strict=True):
        torch.testing.assert_close(actual, leaf.grad, atol=1e-12, rtol=1e-12)


def test_gradients_of_vectors_in_bf16_are_summed_in_fp32(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 1)
    x, vectors = torch.ones(1, 1, 400, 1).bfloat16(), torch.zeros(1, 799, 1).bfloat16()
    gradient = torch.ones(1, 1, 400, 400).bfloat16()
    _, of_vectors = multiply_backward(gradient, OffsetProduct(x, vectors, by_key=False))
    assert of_vectors[0, 399, 0] == 400  # in bf16 1 + 256 would stay 256

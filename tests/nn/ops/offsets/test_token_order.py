"""Products by offset of tokens with position ids, compared with one product for each pair."""

from __future__ import annotations

import pytest
import torch

from toolkit.nn.attention.inputs import Offsets
from toolkit.nn.ops.offsets import attention as module
from toolkit.nn.ops.offsets.attention import OffsetProduct, multiply_backward, write_products

B, H, S, K = 3, 2, 7, 4
POSITIONS = {
    "hidden": [[0, 1, 2, 3, 4, 5, 6], [0, -1, 2, 3, -1, 5, 6], [-1, 1, 2, 3, 4, 5, -1]],
    "different counts": [[0, -1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6], [-1, -1, 2, -1, 4, 5, 6]],
    "exchanged": [[0, 2, 1, 3, 4, 5, 6], [6, 1, 2, 3, 4, 5, 0], [0, 1, 2, 3, 4, 6, 5]],
    "repeated and far": [[0, 1, 2, 3, 4, 5, 6], [0, 1, 1, 3, 4, 5, 6], [0, 1, 2, 3, 11, 5, 11]],
}


def make_product(name: str, *, by_key: bool) -> OffsetProduct:
    positions = torch.tensor(POSITIONS[name])
    offsets = Offsets(positions, S, positions.device)
    assert offsets.multiplies_in_blocks
    x = torch.randn(B, H, S, K, dtype=torch.float64)
    vectors = torch.randn(H, 2 * offsets.max_offset + 1, K, dtype=torch.float64)
    return OffsetProduct(x, vectors, by_key, offsets.token_order)


def multiply_pairs(product: OffsetProduct) -> torch.Tensor:
    """x_i . y_{p_j - p_i} of queries i, or x_j . y_{p_i - p_j} of keys j, from the equations."""
    ids, farthest = product.order.ids, product.vectors.shape[1] // 2
    offsets = ids[:, None] - ids[..., None]  # of a row of x: the other position - its own
    vectors = product.vectors[:, offsets + farthest]  # (H, B, S, S, K)
    scores = torch.einsum("bhrk,hbrck->bhrc", product.x, vectors)
    return scores.mT if product.by_key else scores


@pytest.mark.parametrize("name", POSITIONS)
def test_products_of_tokens_equal_products_of_each_pair(monkeypatch, name):
    monkeypatch.setattr(module, "BLOCK", 3)
    torch.manual_seed(0)
    several = [make_product(name, by_key=by_key) for by_key in (False, True, True)]
    scores = torch.empty(B, H, S, S, dtype=torch.float64)
    write_products(scores, several)
    torch.testing.assert_close(scores, sum(map(multiply_pairs, several)), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("name", POSITIONS)
def test_gradients_of_products_of_tokens_equal_those_of_each_pair(monkeypatch, name, by_key):
    monkeypatch.setattr(module, "BLOCK", 3)
    torch.manual_seed(0)
    product = make_product(name, by_key=by_key)
    gradient = torch.randn(B, H, S, S, dtype=torch.float64)
    leaves = [tensor.clone().requires_grad_() for tensor in product[:2]]
    multiply_pairs(OffsetProduct(*leaves, by_key, product.order)).backward(gradient)
    for actual, leaf in zip(multiply_backward(gradient, product), leaves, strict=True):
        torch.testing.assert_close(actual, leaf.grad, atol=1e-12, rtol=1e-12)


def test_sentences_without_tokens_in_order_are_not_multiplied_in_blocks():
    positions = torch.stack([torch.arange(S), torch.arange(S).roll(1)])
    assert not Offsets(positions, S, positions.device).multiplies_in_blocks


def test_ids_in_order_are_multiplied_like_plain_positions():
    offsets = Offsets(torch.arange(S).expand(B, S), S, torch.device("cpu"))
    assert offsets.multiplies_in_blocks and offsets.token_order is None

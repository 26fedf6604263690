"""Products of heads for GPUs equal plain products, with all gradients."""

import pytest
import torch

from toolkit.nn.ops.batched_products import average_by_head, heads_first, multiply_by_head

BATCH, HEADS, LENGTH = 2, 3, 5


def make_heads(width, *, first=False):
    """As projections have them: sentences, positions and heads in this order in memory."""
    x = torch.randn(BATCH, LENGTH, HEADS, width, dtype=torch.float64).transpose(1, 2)
    return (heads_first(x) if first else x).requires_grad_()


def check(found, expected, inputs):
    torch.testing.assert_close(found, expected)
    gradient = torch.randn_like(expected)
    for pair in zip(
        *(torch.autograd.grad(out, inputs, gradient) for out in (found, expected)), strict=True
    ):
        torch.testing.assert_close(*pair)


@pytest.mark.parametrize("first", [False, True])
def test_multiply_by_head_equals_the_scaled_product_of_queries_and_keys(first):
    torch.manual_seed(0)
    q, k = (make_heads(4, first=first) for _ in range(2))
    found = multiply_by_head(q, k, 0.3)
    check(found, 0.3 * (q @ k.mT), [q, k])
    assert found.transpose(0, 1).is_contiguous()


@pytest.mark.parametrize("width", [3, 4, 5])
def test_average_by_head_equals_the_product_of_weights_and_values(width):
    torch.manual_seed(0)
    v = make_heads(width)
    weights = torch.rand(BATCH, HEADS, LENGTH, LENGTH, dtype=torch.float64).requires_grad_()
    found = average_by_head(weights, v)
    check(found, (weights @ v).transpose(1, 2).flatten(2), [weights, v])


def test_average_by_head_takes_weights_of_higher_precision_under_autocast():
    torch.manual_seed(0)
    v = make_heads(4).detach().bfloat16().requires_grad_()
    weights = torch.rand(BATCH, HEADS, LENGTH, LENGTH, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = average_by_head(weights, v)
    gradients = torch.autograd.grad(found, [weights, v], torch.randn_like(found))
    assert [g.dtype for g in gradients] == [torch.float32, torch.bfloat16]

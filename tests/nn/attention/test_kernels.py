"""Kernels: one number for each offset within the radius, at their first values and at any other."""

import math

import pytest
import torch

from toolkit.nn.attention import (
    AttentionInputs,
    FixedKernel,
    KeyKernel,
    Offsets,
    QueryKernel,
    SequenceContext,
    SpanKernel,
    TokenKernel,
)
from toolkit.nn.attention.kernels import init_directions

B, H, S, K, RADIUS = 2, 3, 5, 4, 2


@pytest.fixture
def p():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, B, H, S, K)
    return AttentionInputs(
        q, k, v, torch.randn(B, S, H * K), SequenceContext(Offsets(None, S, q.device))
    )


def test_a_fixed_kernel_starts_without_preference(p):
    taps = FixedKernel(H, RADIUS)(p)
    assert taps.shape == (1, H, 1, 2 * RADIUS + 1) and not taps.any()


def test_a_fixed_kernel_has_a_number_for_each_head_and_offset(p):
    kernel = FixedKernel(H, RADIUS)
    torch.nn.init.normal_(kernel.taps)
    torch.testing.assert_close(kernel(p)[0, :, 0], kernel.taps)


@pytest.mark.parametrize(("kind", "part"), [(QueryKernel, "q"), (KeyKernel, "k")])
def test_a_dynamic_kernel_is_a_scaled_product_with_a_vector_for_each_offset(kind, part, p):
    kernel, seen = kind(K, RADIUS), getattr(p, part)
    got = kernel(p)
    assert got.shape == (B, H, S, 2 * RADIUS + 1)
    want = sum(seen[1, 2, 3, d] * kernel.directions[d, 4] for d in range(K)) / math.sqrt(K)
    torch.testing.assert_close(got[1, 2, 3, 4], want)


def test_all_heads_share_the_vectors_of_a_dynamic_kernel():
    assert [tuple(w.shape) for w in QueryKernel(K, RADIUS).parameters()] == [(K, 2 * RADIUS + 1)]


def test_the_first_vectors_are_uniform_over_plus_minus_one_over_the_root_of_their_number():
    torch.manual_seed(0)
    table = init_directions(2000, 4)
    assert table.shape == (2000, 9) and table.abs().max() <= 1 / 3
    assert table.std().item() == pytest.approx(1 / 3 / math.sqrt(3), rel=0.02)


def spanning(**options):
    return SpanKernel(H * K, H, K, RADIUS, **options)


@pytest.mark.parametrize(
    "kernel", [TokenKernel(H, K, RADIUS), spanning(), spanning(renormalize=True)]
)
def test_the_weights_of_a_generated_kernel_add_up_to_one(kernel, p):
    weights = kernel(p)
    assert weights.shape == (B, H, S, 2 * RADIUS + 1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, S))


def test_a_kernel_within_the_sentence_gives_no_weight_to_its_ends_or_to_padding(p):
    places = p.sequence._replace(padding=torch.arange(S).expand(B, S) >= S - 1)
    weights = spanning(renormalize=True)(p._replace(sequence=places))
    assert not weights[:, :, 0, :RADIUS].any()  # before the first token
    assert not weights[:, :, 2, RADIUS + 2 :].any() and weights[:, :, 2, RADIUS + 1].all()


def test_a_span_kernel_knows_its_neighbors_and_a_token_kernel_does_not(p):
    moved = p._replace(x=p.x.clone())
    moved.x[:, 3] += 1.0
    for kernel, near in ((spanning(), [1, 2, 3, 4]), (TokenKernel(H, K, RADIUS), [])):
        changed = (kernel(p) != kernel(moved)).any(-1).any(1)[0]
        assert changed.nonzero().flatten().tolist() == near

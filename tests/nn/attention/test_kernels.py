"""Kernels: values, initialization and dependencies."""

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


def test_fixed_kernel_starts_at_zero(p):
    taps = FixedKernel(H, RADIUS)(p)
    assert taps.shape == (1, H, 1, 2 * RADIUS + 1) and not taps.any()


def test_fixed_kernel_has_a_number_per_head_and_offset(p):
    kernel = FixedKernel(H, RADIUS)
    torch.nn.init.normal_(kernel.taps)
    torch.testing.assert_close(kernel(p)[0, :, 0], kernel.taps)


@pytest.mark.parametrize(("kind", "part"), [(QueryKernel, "q"), (KeyKernel, "k")])
def test_dynamic_kernel_is_a_scaled_product_with_a_vector_per_offset(kind, part, p):
    kernel, x = kind(K, RADIUS), getattr(p, part)
    taps = kernel(p)
    assert taps.shape == (B, H, S, 2 * RADIUS + 1)
    expected = sum(x[1, 2, 3, d] * kernel.directions[d, 4] for d in range(K)) / math.sqrt(K)
    torch.testing.assert_close(taps[1, 2, 3, 4], expected)


def test_dynamic_kernel_shares_its_vectors_among_heads():
    assert [tuple(w.shape) for w in QueryKernel(K, RADIUS).parameters()] == [(K, 2 * RADIUS + 1)]


def test_init_directions_are_uniform_within_one_over_the_root_of_the_taps():
    torch.manual_seed(0)
    table = init_directions(2000, 4)
    assert table.shape == (2000, 9) and table.abs().max() <= 1 / 3
    assert table.std().item() == pytest.approx(1 / 3 / math.sqrt(3), rel=0.02)


def span_kernel(**options):
    return SpanKernel(H * K, H, K, RADIUS, **options)


@pytest.mark.parametrize(
    "kernel", [TokenKernel(H, K, RADIUS), span_kernel(), span_kernel(renormalize=True)]
)
def test_generated_kernel_sums_to_1(kernel, p):
    weights = kernel(p)
    assert weights.shape == (B, H, S, 2 * RADIUS + 1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, S))


def test_renormalized_kernel_has_no_weight_beyond_the_ends_or_on_padding(p):
    padded = p.sequence._replace(padding=torch.arange(S).expand(B, S) >= S - 1)
    weights = span_kernel(renormalize=True)(p._replace(sequence=padded))
    assert not weights[:, :, 0, :RADIUS].any()  # before the first token
    assert not weights[:, :, 2, RADIUS + 2 :].any() and weights[:, :, 2, RADIUS + 1].all()


def test_span_kernel_depends_on_neighbors_and_token_kernel_does_not(p):
    changed = p._replace(x=p.x.clone())
    changed.x[:, 3] += 1.0
    for kernel, expected in ((span_kernel(), [1, 2, 3, 4]), (TokenKernel(H, K, RADIUS), [])):
        differs = (kernel(p) != kernel(changed)).any(-1).any(1)[0]
        assert differs.nonzero().flatten().tolist() == expected

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from toolkit.nn.ops import dropout
from toolkit.nn.ops.dropout import LEVELS, Dropout, draw_keep_mask, fill_random_blocks, round_rate


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_zeroes_its_rate_and_keeps_the_mean(rate):
    torch.manual_seed(0)
    y = Dropout(rate)(torch.ones(1_000_001))
    kept = y != 0
    deviation = (rate * (1 - rate) / len(y)) ** 0.5
    assert abs(kept.float().mean() - (1 - round_rate(rate))) < 4 * deviation
    assert y[kept].unique().tolist() == pytest.approx([1 / (1 - round_rate(rate))])


def test_dropout_rate_is_rounded_to_15_bits():
    assert round_rate(0.1) == 3277 / LEVELS
    assert abs(round_rate(0.1) - 0.1) < 0.5 / LEVELS


def test_dropout_rate_near_1_stays_finite():
    torch.manual_seed(0)
    y = Dropout(0.99999)(torch.ones(1_000_000))
    assert y.unique().tolist() == [0, LEVELS] and 10 < (y != 0).sum() < 60  # 30.5 are expected


def test_dropout_bits_are_uniform():
    torch.manual_seed(0)
    words = torch.cat(list(fill_random_blocks(torch.empty(400_000, dtype=torch.int64))))
    lanes = words.view(torch.int16).view(-1, 4).T.long()
    for lane in [*(lanes & 0xFF), *((lanes >> 7) & 0xFF)]:
        counts = lane.bincount(minlength=256).double()
        expected = len(lane) / 256
        chi_square = ((counts - expected) ** 2 / expected).sum()
        assert 160 < chi_square < 370  # 255 degrees of freedom: mean 255, deviation 22.6


def test_random_words_are_splitmix64_for_any_block_size(monkeypatch):
    monkeypatch.setattr(dropout, "BLOCK", 4)
    dropout.counter_block.cache_clear()
    torch.manual_seed(0)
    seed, mask = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)), 2**64 - 1
    torch.manual_seed(0)
    words = torch.cat(list(fill_random_blocks(torch.empty(11, dtype=torch.int64)))).tolist()
    dropout.counter_block.cache_clear()
    for i, word in enumerate(words):
        z = (seed + (i + 1) * 0x9E3779B97F4A7C15) & mask
        z = (z ^ shift_right(z, 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ shift_right(z, 27)) * 0x94D049BB133111EB & mask
        assert word & mask == z ^ shift_right(z, 31)


def shift_right(word, bits):
    """Shift with the sign kept, as torch does."""
    return ((word - 2**64 if word >> 63 else word) >> bits) & (2**64 - 1)


def test_dropout_masks_are_independent_of_neighbors_and_predecessors():
    torch.manual_seed(0)
    one, other = (draw_keep_mask(torch.Size([500_000]), 0.5) == 0 for _ in range(2))
    for a, b in ((one[1:], one[:-1]), (one[4:], one[:-4]), (one, other)):
        assert abs((a & b).float().mean() - 0.25) < 4 * (0.25 * 0.75 / len(a)) ** 0.5


def test_dropout_follows_the_default_generator():
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = Dropout(0.5)(x), Dropout(0.5)(x)
    torch.manual_seed(3)
    assert torch.equal(first, Dropout(0.5)(x))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_dropout_gradient_has_the_mask_of_the_output(dtype):
    x = torch.randn(3, 5, 7, dtype=dtype, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y, rtol=1e-2, atol=1e-3)


def test_dropout_is_the_identity_in_evaluation():
    x = torch.randn(9)
    assert torch.equal(Dropout(0.9).eval()(x), x)


def test_dropout_is_repeated_by_activation_checkpointing():
    layer = torch.nn.Sequential(torch.nn.Linear(16, 16), Dropout(0.5), torch.nn.Linear(16, 16))
    x = torch.randn(8, 16)

    def gradient(forward) -> torch.Tensor:
        layer.zero_grad()
        torch.manual_seed(5)
        forward(x).square().sum().backward()
        return layer[0].weight.grad.clone()

    plain = gradient(layer)
    assert torch.equal(gradient(lambda x: checkpoint(layer, x, use_reentrant=False)), plain)

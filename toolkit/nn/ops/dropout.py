"""Dropout (Srivastava et al. 2014) with fast random bits on CPUs.

Torch draws bits one after another on one core, which at small widths costs as much as the rest of
the layer. Here one number from its default generator seeds a counter, and SplitMix64's finalizer
(Steele, Lea & Flood 2014, Fig. 16) turns each count into 64 bits, in vector operations on all
cores. The highest bit is 0, since torch's shifts keep the sign; each element uses 15 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch
from jaxtyping import Float, Int, Int16
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.dispatch import apply_eagerly, fast

LEVELS = 2**15
"""Rates are rounded to a multiple of 1 / LEVELS below 1; the scale is that of the rounded rate."""

GOLDEN = 0x9E3779B97F4A7C15
BLOCK = 2**18
"""Words computed at a time, so that they stay in the cache."""

INTEGER_DTYPES = {
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


class Dropout(nn.Module):
    """y = x * keep / (1 - rate), keep ~ Bernoulli(1 - rate) independently for every element."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    @property
    def effective_rate(self) -> float:
        """The rate; 0 in evaluation."""
        return self.rate if self.training else 0.0

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if self.effective_rate == 0 or x.device.type != "cpu" or not fast("dropout"):
            return F.dropout(x, self.effective_rate, self.training)
        return apply_eagerly(_Dropout, x, self.effective_rate)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


def round_rate(rate: float) -> float:
    """The nearest rate below 1 that 15 bits can express."""
    return min(round(rate * LEVELS), LEVELS - 1) / LEVELS


def draw_keep_mask(shape: torch.Size, rate: float) -> Int16[Tensor, "*shape"]:
    """All bits set with probability 1 - round_rate(rate), none otherwise; on the CPU."""
    keep_levels = round((1 - round_rate(rate)) * LEVELS)  # of the LEVELS values of 15 bits
    words = torch.empty(-(-shape.numel() // 4), dtype=torch.int64)
    for block in fill_random_blocks(words):
        bits = block.view(torch.int16)
        bits.bitwise_and_(LEVELS - 1).sub_(keep_levels).bitwise_right_shift_(
            15
        )  # the sign, 16 times
    return words.view(torch.int16)[: shape.numel()].view(shape)


def apply_keep_mask(
    x: Float[Tensor, "*shape"], keep: Int[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """x where all bits of `keep` are set, 0 where none is."""
    integer = INTEGER_DTYPES[x.dtype]
    return x.view(integer).bitwise_and(keep.to(integer)).view(x.dtype)


def fill_random_blocks(words: Int[Tensor, " words"]) -> Iterator[Int[Tensor, " block"]]:
    """Fill `words` with random bits and yield its blocks; the highest bit of a word is 0.

    Word i is the finalizer of seed + (i + 1) golden, independently of the size of the blocks.
    """
    seed = torch.empty((), dtype=torch.int64).random_(-(2**63), None)
    scratch = torch.empty(min(BLOCK, len(words)), dtype=torch.int64)
    for start in range(0, len(words), BLOCK):
        z = words[start : start + BLOCK]
        shifted = scratch[: len(z)]
        torch.add(counter_block()[: len(z)], seed + _to_signed(GOLDEN * start), out=z)
        torch.bitwise_right_shift(z, 30, out=shifted)
        z.bitwise_xor_(shifted).mul_(_to_signed(0xBF58476D1CE4E5B9))
        torch.bitwise_right_shift(z, 27, out=shifted)
        z.bitwise_xor_(shifted).mul_(_to_signed(0x94D049BB133111EB))
        torch.bitwise_right_shift(z, 31, out=shifted)
        yield z.bitwise_xor_(shifted)


@cache
def counter_block() -> Int[Tensor, " words"]:
    """golden, 2 golden, 3 golden, ... modulo 2^64, for one block."""
    with torch.inference_mode(False):
        return torch.arange(1, BLOCK + 1).mul_(_to_signed(GOLDEN))


def _to_signed(word: int) -> int:
    """A 64-bit unsigned integer reinterpreted as signed."""
    return (word + 2**63) % 2**64 - 2**63


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rate):  # type: ignore[no-untyped-def]
        keep, ctx.scale = draw_keep_mask(x.shape, rate), 1 / (1 - round_rate(rate))
        ctx.save_for_backward(keep)
        return apply_keep_mask(x, keep).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (keep,) = ctx.saved_tensors
        return apply_keep_mask(gradient, keep).mul_(ctx.scale), None

"""Dropout of attention weights in Triton, by a counter: every kernel finds the same weights again.

A row of queries has 64 random bits, by Philox (Salmon et al. 2011) of the seed, the row and the
head. A weight has 24 bits of their hash with its key's index: lowbias32 (Wellons 2018, "hash
prospector") with half of the row's bits in its middle, 12 operations instead of Philox's 60.
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

LEVELS = 1 << 24
"""Rates are rounded to a multiple of 1 / LEVELS."""
ROUNDS = tl.constexpr(7)
"""Of Philox4x32; 7 pass all tests of Salmon et al. 2011."""


def dropout_numbers(rate: float) -> tuple[int, float]:
    """The threshold below which bits drop a weight, and the scale of those that are kept."""
    threshold = min(round(rate * LEVELS), LEVELS - 1)
    return threshold, LEVELS / (LEVELS - threshold)


@triton.jit
@no_type_check  # Triton compiles the source, so the functions must not be wrapped
def draw_row_bits(seed, rows, head):
    """Two words of 32 bits for each row of queries; None without dropout."""
    bits = None
    if seed is not None:
        rows = rows.to(tl.int32)  # of 64 bits, they would have words of 64 bits
        zero = rows * 0
        words = tl.philox(tl.load(seed), rows, zero + head, zero, zero, ROUNDS)
        bits = words[0], words[1]
    return bits


@triton.jit
@no_type_check
def store_row_bits(row_bits, bits, places, mask):
    """For a kernel that would draw those of a row again for each block of keys."""
    if bits is not None:
        tl.store(row_bits + 2 * places, bits[0].to(tl.int32, bitcast=True), mask=mask)
        tl.store(row_bits + 2 * places + 1, bits[1].to(tl.int32, bitcast=True), mask=mask)


@triton.jit
@no_type_check
def load_row_bits(row_bits, places, mask):
    """The random bits of some rows as two words each; None without dropout."""
    bits = None
    if row_bits is not None:
        low = tl.load(row_bits + 2 * places, mask=mask, other=0).to(tl.uint32, bitcast=True)
        high = tl.load(row_bits + 2 * places + 1, mask=mask, other=0).to(tl.uint32, bitcast=True)
        bits = low, high
    return bits


@triton.jit
@no_type_check
def keep_weights(bits, keys, threshold, QUERY_AXIS: tl.constexpr):
    """Whether weights are kept: (queries, keys), or the other way round."""
    kept = None
    if bits is not None:
        low = tl.expand_dims(bits[0], 1 - QUERY_AXIS)
        high = tl.expand_dims(bits[1], 1 - QUERY_AXIS)
        x = low ^ tl.expand_dims(keys.to(tl.uint32) * 0x9E3779B9, QUERY_AXIS)
        x = (x ^ (x >> 16)) * 0x7FEB352D
        x = x ^ high
        x = (x ^ (x >> 15)) * 0x846CA68B
        x = x ^ (x >> 16)
        kept = (x >> 8).to(tl.int32) >= threshold
    return kept


@triton.jit
@no_type_check
def drop(x, kept, scale):
    """x * kept * scale."""
    if kept is not None:
        x = tl.where(kept, x * scale, 0.0)
    return x

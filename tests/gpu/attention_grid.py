"""Calls of attention with learned taps for Triton's interpreter: few for every run, and many."""

from __future__ import annotations

from tests.gpu.attention_cases import AttentionCase

QUICK = [
    AttentionCase((5,)),
    AttentionCase((33, 1), dtype="bf16", positions="repeated"),
    AttentionCase((20, 0, 9), dtype="fp16", stride=24, width=20, causal=True, shared=True),
]
MORE = [
    *(AttentionCase((37, 0, 9), tables=tables, offsets=17) for tables in ("none", "key")),
    *(AttentionCase((35, 6), positions=it) for it in ("permuted", "hidden", "jumps")),
    *(AttentionCase((19, 3), width=width, dtype="bf16") for width in (24, 128)),
    *(AttentionCase((n,), offsets=5, heads=1) for n in (1, 130)),
    AttentionCase((17, 0, 40), stride=48, causal=True, dtype="fp16"),
    AttentionCase((70,), causal=True, positions="permuted"),
    AttentionCase((9, 12), parts=4, tables="none", width=48, dtype="bf16"),
    AttentionCase((9, 12), offsets=1),
    AttentionCase((40,), offsets=63, shared=True),
    AttentionCase((12, 5), offsets=3, stride=12, shared=True, positions="hidden"),
]
DROPPED = [AttentionCase((18, 0, 7), dtype="bf16", dropout=0.25)]
MORE_DROPPED = [
    AttentionCase((20, 3), tables="none", dropout=0.1),
    AttentionCase((33, 9), positions="permuted", causal=True, dropout=0.3),
]
BOUNDS = {"fp32": 1e-5, "bf16": 8e-2, "fp16": 8e-3}
"""Greatest error allowed, as a fraction of the greatest number, or of 1 if all are smaller."""

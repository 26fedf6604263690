"""The kernels of attention with learned taps in Triton's interpreter: equal to the equation."""

from __future__ import annotations

import pytest

from tests.gpu.attention_cases import AttentionCase

QUICK = [
    AttentionCase((5,)),
    AttentionCase((33, 1), dtype="bf16", positions="repeated"),
    AttentionCase((20, 0, 9), dtype="fp16", stride=24, width=20, causal=True, shared=True),
]
BOUNDS = {"fp32": 3e-6, "bf16": 5e-2, "fp16": 5e-3}
"""Greatest error allowed, as a fraction of the greatest number."""


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_attention_kernels_equal_the_equation(case, interpreter):
    from tests.gpu.attention_cases import compare

    assert max(interpreter(compare, case)) < BOUNDS[case.dtype]

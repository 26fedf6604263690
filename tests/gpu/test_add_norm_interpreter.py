"""The kernels of the residual connection in Triton's interpreter: equal to plain operations."""

from __future__ import annotations

import pytest

BOUNDS = {"float32": 5e-6, "bfloat16": 3e-2, "float16": 4e-3}
"""Greatest error allowed, as a fraction of the greatest number."""
CASES = [
    {"rows": 9, "width": 16},
    {"rows": 5, "width": 20, "rate": 0.25},
    {"rows": 1, "width": 100, "rate": 0.1},
    {"rows": 12, "width": 24, "dtype": "bfloat16", "rate": 0.25},
    {"rows": 7, "width": 32, "dtype": "float16"},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_residual_kernels_equal_plain_operations(options, interpreter):
    from tests.gpu.add_norm_cases import NormCase, compare

    case = NormCase(**options)
    assert max(interpreter(compare, case)) < BOUNDS[case.dtype]


def test_residual_kernels_repeat_their_bits_and_drop_by_the_seed(interpreter):
    from tests.gpu.add_norm_cases import NormCase, repeat

    same, other, kept = interpreter(repeat, NormCase(40, 50, rate=0.3))
    assert same
    assert not other
    assert abs(kept - 0.7) < 0.03

"""The kernel of the cross-entropy in Triton's interpreter: equal to torch's loss and gradient."""

from __future__ import annotations

import pytest

BOUNDS = {"float32": 3e-6, "bfloat16": 5e-3, "float16": 1e-3}
"""Greatest error allowed, as a fraction of the greatest number."""
CASES = [
    {"rows": 5, "classes": 37, "padded": 48},
    {"rows": 4, "classes": 37, "padded": 37, "smoothing": 0.1, "scale": 30.0},
    {"rows": 6, "classes": 100, "padded": 128, "dtype": "bfloat16", "smoothing": 0.2},
    {"rows": 3, "classes": 16, "padded": 16, "dtype": "float16"},
    {"rows": 1, "classes": 3, "padded": 64, "scale": 100.0},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_kernel_equals_the_loss_and_its_gradient(options, interpreter):
    from tests.gpu.cross_entropy_cases import LossCase, compare

    case = LossCase(**options)
    assert max(interpreter(compare, case)) < BOUNDS[case.dtype]


def test_loss_in_chunks_is_the_same_by_the_kernel(interpreter):
    from tests.gpu.cross_entropy_cases import compare_chunks

    assert interpreter(compare_chunks) < 1e-6


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_logits_that_are_not_finite_give_a_loss_that_is_not(value, interpreter):
    from tests.gpu.cross_entropy_cases import follow_infinity

    assert interpreter(follow_infinity, value) == [False, True]

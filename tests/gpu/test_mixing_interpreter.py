"""The kernels of mixed attention maps in Triton's interpreter: equal to plain operations."""

from __future__ import annotations

import pytest

BOUNDS = {"float32": 1e-6, "bfloat16": 1.5e-2, "float16": 2e-3}
"""Greatest error allowed, as a fraction of the norm of a result or gradient."""
QUICK = [
    {"batch": 2, "length": 19},
    {"batch": 1, "length": 16, "dtype": "bfloat16", "padding": True, "dropout": 0.25},
]
MORE = [
    {"batch": 1, "length": 33, "padding": True, "dropout": 0.1},
    {"batch": 1, "length": 5, "heads": (17, 2), "kinds": (2, 0), "dtype": "float16"},
    {"batch": 1, "length": 1, "dtype": "bfloat16"},
    {"batch": 1, "length": 20, "heads": (3, 3), "kinds": (1, 1)},
]
CASES = [*QUICK, *(pytest.param(case, marks=pytest.mark.slow) for case in MORE)]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_mixing_kernels_equal_plain_operations(options, interpreter):
    from tests.gpu.mixing_cases import MixingCase, compare

    case = MixingCase(**options)
    assert max(interpreter(compare, case)) < BOUNDS[case.dtype]


def test_mixing_kernels_repeat_their_bits_and_drop_by_the_seed(interpreter):
    from tests.gpu.mixing_cases import MixingCase, repeat

    assert interpreter(repeat, MixingCase(1, 9, dropout=0.3)) == (True, False)


@pytest.mark.parametrize("positions", [None, [list(range(7)), [3, -1, 2, -1, 4, 5, 6]]], ids=str)
def test_maps_of_taco_by_kernels_equal_those_by_plain_operations(positions, interpreter):
    from tests.gpu.mixing_cases import compare_taco_maps

    assert max(interpreter(compare_taco_maps, 7, positions)) < 1e-5

"""The kernels of attention with learned taps in Triton's interpreter: equal to the equation."""

from __future__ import annotations

import pytest

from tests.gpu.attention_cases import AttentionCase
from tests.gpu.attention_grid import BOUNDS, DROPPED, MORE, MORE_DROPPED, QUICK


def mark_slow(cases):
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize("case", [*QUICK, *mark_slow(MORE)], ids=lambda case: case.name)
def test_attention_kernels_equal_the_equation(case, interpreter):
    from tests.gpu.attention_cases import compare

    assert max(interpreter(compare, case)) < BOUNDS[case.dtype]


@pytest.mark.parametrize("case", [*DROPPED, *mark_slow(MORE_DROPPED)], ids=lambda case: case.name)
def test_all_kernels_drop_the_same_weights(case, interpreter):
    from tests.gpu.attention_dropout import compare_dropped

    assert max(interpreter(compare_dropped, case)) < BOUNDS[case.dtype]


@pytest.mark.parametrize("rate", [0.1, pytest.param(0.5, marks=pytest.mark.slow)])
def test_weights_are_dropped_at_the_rate_and_others_scaled(rate, interpreter):
    from tests.gpu.attention_dropout import find_kept

    kept = interpreter(find_kept, AttentionCase((100,), heads=3, dropout=rate))
    dropped = (kept == 0).double()
    assert dropped.mean() == pytest.approx(rate, abs=0.01)  # 4 standard deviations
    assert kept[kept != 0].numpy() == pytest.approx(1 / (1 - rate), rel=1e-5)
    for axis in ((0, 1), (0, 2), (1, 2)):  # of keys, heads and queries
        assert dropped.mean(axis).numpy() == pytest.approx(rate, abs=0.17)


def test_weights_of_heads_and_rows_are_dropped_independently(interpreter):
    from tests.gpu.attention_dropout import find_kept

    kept = interpreter(find_kept, AttentionCase((100,), heads=2, dropout=0.5)) > 0
    for other in (kept[:, 1], kept[:, 0].roll(1, 0), kept[:, 0].roll(1, 1), kept[:, 0].T):
        assert (kept[:, 0] == other).double().mean() == pytest.approx(0.5, abs=0.025)


def test_attention_kernels_repeat_their_bits_and_drop_by_the_seed(interpreter):
    from tests.gpu.attention_dropout import repeat_dropped

    case = AttentionCase((21, 4), dtype="bf16", dropout=0.3)
    assert interpreter(repeat_dropped, case) == (True, False)


@pytest.mark.parametrize("dropout", [0.3, pytest.param(0.0, marks=pytest.mark.slow)])
def test_gradients_are_slopes_of_the_context(dropout, interpreter):
    from tests.gpu.attention_dropout import compare_slopes

    slope, difference = interpreter(compare_slopes, AttentionCase((17, 6), dropout=dropout))
    assert slope == pytest.approx(difference, rel=1e-3)

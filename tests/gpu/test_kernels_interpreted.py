"""Triton kernels in the interpreter: equal to exact results; the same seed gives the same bits."""

from __future__ import annotations

from functools import partial

import pytest
import torch

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


def mark_slow(cases):
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize("case", [*QUICK, *mark_slow(MORE)], ids=lambda case: case.name)
def test_attention_kernels_equal_the_equation(case, interpreter):
    from tests.gpu.attention_cases import compare

    assert max(interpreter(compare, case)) < BOUNDS[case.dtype]


@pytest.mark.parametrize("case", [*DROPPED, *mark_slow(MORE_DROPPED)], ids=lambda case: case.name)
def test_all_kernels_drop_the_same_weights(case, interpreter):
    from tests.gpu.attention_cases import compare_dropped

    assert max(interpreter(compare_dropped, case)) < BOUNDS[case.dtype]


@pytest.mark.parametrize("rate", [0.1, pytest.param(0.5, marks=pytest.mark.slow)])
def test_weights_are_dropped_at_the_rate_and_others_scaled(rate, interpreter):
    from tests.gpu.attention_cases import find_kept

    kept = interpreter(find_kept, AttentionCase((100,), heads=3, dropout=rate))
    dropped = (kept == 0).double()
    assert dropped.mean() == pytest.approx(rate, abs=0.01)  # 4 standard deviations
    assert kept[kept != 0].numpy() == pytest.approx(1 / (1 - rate), rel=1e-5)
    for axis in ((0, 1), (0, 2), (1, 2)):  # of keys, heads and queries
        assert dropped.mean(axis).numpy() == pytest.approx(rate, abs=0.17)


def test_weights_of_heads_and_rows_are_dropped_independently(interpreter):
    from tests.gpu.attention_cases import find_kept

    kept = interpreter(find_kept, AttentionCase((100,), heads=2, dropout=0.5)) > 0
    for other in (kept[:, 1], kept[:, 0].roll(1, 0), kept[:, 0].roll(1, 1), kept[:, 0].T):
        assert (kept[:, 0] == other).double().mean() == pytest.approx(0.5, abs=0.025)


def test_attention_kernels_repeat_their_bits_and_drop_by_the_seed(interpreter):
    from tests.gpu.attention_cases import repeat_dropped

    case = AttentionCase((21, 4), dtype="bf16", dropout=0.3)
    assert interpreter(repeat_dropped, case) == (True, False)


@pytest.mark.parametrize("dropout", [0.3, pytest.param(0.0, marks=pytest.mark.slow)])
def test_gradients_are_slopes_of_the_context(dropout, interpreter):
    from tests.gpu.attention_cases import compare_slopes

    slope, difference = interpreter(compare_slopes, AttentionCase((17, 6), dropout=dropout))
    assert slope == pytest.approx(difference, rel=1e-3)


MIXING_BOUNDS = {"float32": 1e-6, "bfloat16": 1.5e-2, "float16": 2e-3}
"""Greatest error allowed, as a fraction of the norm of a result or gradient."""
MIXING_QUICK = [
    {"batch": 2, "length": 19},
    {"batch": 1, "length": 16, "dtype": "bfloat16", "padding": True, "dropout": 0.25},
]
MIXING_MORE = [
    {"batch": 1, "length": 33, "padding": True, "dropout": 0.1},
    {"batch": 1, "length": 5, "heads": (17, 2), "kinds": (2, 0), "dtype": "float16"},
    {"batch": 1, "length": 1, "dtype": "bfloat16"},
    {"batch": 1, "length": 20, "heads": (3, 3), "kinds": (1, 1)},
]
MIXING_CASES = [
    *MIXING_QUICK,
    *(pytest.param(case, marks=pytest.mark.slow) for case in MIXING_MORE),
]


@pytest.mark.parametrize("options", MIXING_CASES, ids=str)
def test_mixing_kernels_equal_plain_operations(options, interpreter):
    from tests.gpu.mixing_cases import MixingCase, compare

    case = MixingCase(**options)
    assert max(interpreter(compare, case)) < MIXING_BOUNDS[case.dtype]


def test_mixing_kernels_repeat_their_bits_and_drop_by_the_seed(interpreter):
    from tests.gpu.mixing_cases import MixingCase, repeat

    assert interpreter(repeat, MixingCase(1, 9, dropout=0.3)) == (True, False)


@pytest.mark.parametrize("positions", [None, [list(range(7)), [3, -1, 2, -1, 4, 5, 6]]], ids=str)
def test_maps_of_taco_by_kernels_equal_those_by_plain_operations(positions, interpreter):
    from tests.gpu.mixing_cases import compare_taco_maps

    assert max(interpreter(compare_taco_maps, 7, positions)) < 1e-5


NORM_BOUNDS = {"float32": 5e-6, "bfloat16": 3e-2, "float16": 4e-3}
"""Greatest error allowed, as a fraction of the greatest number."""
NORM_CASES = [
    {"rows": 9, "width": 16},
    {"rows": 5, "width": 20, "rate": 0.25, "y_bias": True},
    {"rows": 1, "width": 100, "rate": 0.1},
    {"rows": 12, "width": 24, "dtype": "bfloat16", "rate": 0.25, "y_bias": True},
    {"rows": 7, "width": 32, "dtype": "float16", "y_bias": True},
]


@pytest.mark.parametrize("options", NORM_CASES, ids=str)
def test_residual_kernels_equal_plain_operations(options, interpreter):
    from tests.gpu.add_norm_cases import NormCase, compare

    case = NormCase(**options)
    assert max(interpreter(compare, case)) < NORM_BOUNDS[case.dtype]


def test_residual_kernels_repeat_their_bits_and_drop_by_the_seed(interpreter):
    from tests.gpu.add_norm_cases import NormCase, repeat

    same, other, kept = interpreter(repeat, NormCase(40, 50, rate=0.3))
    assert same
    assert not other
    assert abs(kept - 0.7) < 0.03


@pytest.mark.parametrize(("rows", "width"), [(5, 20), (1, 16), (8, 33)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_kernel_of_gelu_equals_its_gradient_and_the_sums_of_its_columns(
    rows, width, dtype, interpreter
):
    from tests.gpu.add_norm_cases import compare_gelu

    bound = {"float32": 2e-6, "bfloat16": 1e-2}[dtype]
    assert max(interpreter(compare_gelu, rows, width, dtype)) < bound


@pytest.mark.parametrize("arch", ["bert_tiny", "taco_tiny"])
def test_biases_whose_gradients_are_summed_in_kernels_have_the_same_ones(arch, interpreter):
    from tests.gpu.add_norm_cases import compare_bias_sums

    assert interpreter(compare_bias_sums, arch) < 1e-4


LOSS_BOUNDS = {"float32": 3e-6, "bfloat16": 5e-3, "float16": 1e-3}
"""Greatest error allowed, as a fraction of the greatest number."""
LOSS_CASES = [
    {"rows": 5, "classes": 37, "padded": 48},
    {"rows": 4, "classes": 37, "padded": 37, "smoothing": 0.1, "scale": 30.0},
    {"rows": 6, "classes": 100, "padded": 128, "dtype": "bfloat16", "smoothing": 0.2},
    {"rows": 3, "classes": 16, "padded": 16, "dtype": "float16"},
    {"rows": 1, "classes": 3, "padded": 64, "scale": 100.0},
]


@pytest.mark.parametrize("options", LOSS_CASES, ids=str)
def test_kernel_equals_the_loss_and_its_gradient(options, interpreter):
    from tests.gpu.cross_entropy_cases import LossCase, compare

    case = LossCase(**options)
    assert max(interpreter(compare, case)) < LOSS_BOUNDS[case.dtype]


def test_loss_in_chunks_is_the_same_by_the_kernel(interpreter):
    from tests.gpu.cross_entropy_cases import compare_chunks

    assert interpreter(compare_chunks) < 1e-6


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_logits_that_are_not_finite_give_a_loss_that_is_not(value, interpreter):
    from tests.gpu.cross_entropy_cases import follow_infinity

    assert interpreter(follow_infinity, value) == [False, True]


FEW = [(1, 1, 1, 1, 4), (1, 2, 5, 9, 6), (1, 1, 33, 9, 20)]
MANY = [(2, 3, 33, 9, 64), (1, 2, 70, 17, 54), (1, 2, 40, 7, 1)]
SHAPES = [*FEW, *(pytest.param(shape, marks=pytest.mark.slow) for shape in MANY)]
"""Sentences, heads, length, taps, width."""
ROUNDING = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
"""Greatest error allowed, as a fraction of the greatest number."""


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolution_kernels_equal_exact_products(shape, dtype, interpreter):
    from tests.gpu.convolution_cases import convolve

    for found, exact in zip(*interpreter(convolve, shape, dtype), strict=True):
        assert found.dtype == dtype
        error = (found.double() - exact).abs().max() / exact.abs().max().clamp_min(1e-9)
        assert error < ROUNDING[dtype]


def test_convolution_kernels_read_strided_tensors(interpreter):
    from tests.gpu.convolution_cases import convolve_strided

    for found, exact in zip(*interpreter(convolve_strided), strict=True):
        torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=1e-5)


def test_convolution_kernels_give_the_same_bits_twice(interpreter):
    from tests.gpu.convolution_cases import convolve

    shape = (1, 2, 40, 9, 16)
    first, second = (interpreter(convolve, shape, torch.bfloat16)[0] for _ in range(2))
    assert all(map(torch.equal, first, second))


CHANNELS = [(1, 33, 70, 9), (1, 1, 4, 1), (2, 5, 6, 9)]
"""Sentences, length, channels, taps."""
MORE_CHANNELS = [(1, 130, 20, 3), (1, 40, 20, 31)]


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize(
    "shape", [*CHANNELS, *(pytest.param(s, marks=pytest.mark.slow) for s in MORE_CHANNELS)], ids=str
)
def test_depthwise_kernels_equal_exact_convolutions(shape, dtype, interpreter):
    from tests.gpu.convolution_cases import convolve_channels

    found, exact = interpreter(convolve_channels, shape, dtype)
    assert [t.dtype for t in found] == [dtype, dtype, torch.float32, torch.float32]
    for one, other in zip(found, exact, strict=True):
        error = (one.double() - other).abs().max() / other.abs().max().clamp_min(1e-9)
        assert error < ROUNDING[dtype]


def test_depthwise_kernels_need_no_bias(interpreter):
    from tests.gpu.convolution_cases import convolve_channels

    found, exact = interpreter(partial(convolve_channels, bias=False), CHANNELS[0], torch.float32)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-5)


def test_depthwise_kernels_give_the_same_bits_twice(interpreter):
    from tests.gpu.convolution_cases import convolve_channels

    shape = CHANNELS[0]
    first, second = (interpreter(convolve_channels, shape, torch.bfloat16)[0] for _ in range(2))
    assert all(map(torch.equal, first, second))

import math
from dataclasses import replace

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import LR_SCHEDULERS
from toolkit.optim.schedules import (
    CosineConfig,
    PolynomialConfig,
    TriStageConfig,
    WarmupConfig,
    WsdConfig,
    cosine,
    describe_misfit,
    fixed_rate,
    inverse_sqrt,
    linear,
    polynomial,
    tri_stage,
    wsd,
)


def test_linear_rises_to_its_peak_and_falls_in_equal_steps():
    factor = linear(WarmupConfig(warmup_updates=4), 12)
    rising, falling = [1 / 4, 2 / 4, 3 / 4, 1], [1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    assert [factor(n) for n in range(1, 13)] == pytest.approx(rising + falling)


@pytest.mark.parametrize("name", ["linear", "cosine", "inverse_sqrt", "fixed", "wsd", "plateau"])
def test_warmup_fraction_equals_the_same_number_of_updates(name):
    entry = LR_SCHEDULERS[name]
    fraction = entry.factory(replace(entry.config, warmup_fraction=0.1), 30)
    updates = entry.factory(replace(entry.config, warmup_updates=3), 30)
    assert [fraction(n) for n in range(1, 31)] == [updates(n) for n in range(1, 31)]


def test_warmup_fraction_replaces_warmup_updates():
    assert WarmupConfig(warmup_updates=5, warmup_fraction=0.1).warmup(100) == 10
    with pytest.raises(
        ToolkitError, match=r"warmup_fraction must be at least 0 and at most 1, but is 10.0"
    ):
        WarmupConfig(warmup_fraction=10.0)


def test_polynomial_follows_its_formula():
    factor = polynomial(PolynomialConfig(warmup_updates=2, power=2.0, end_rate=0.1), 6)
    for n, left in ((3, 4 / 4), (4, 3 / 4), (5, 2 / 4), (6, 1 / 4)):
        assert factor(n) == pytest.approx(0.1 + 0.9 * left**2)
    assert factor(7) == pytest.approx(0.1)


def test_inverse_sqrt_follows_its_formula():
    factor = inverse_sqrt(WarmupConfig(warmup_updates=9), 100)
    assert [factor(3), factor(9), factor(36)] == pytest.approx([1 / 3, 1, 0.5])
    assert factor(50) == pytest.approx(math.sqrt(9 / 50))


def test_cosine_follows_its_formula():
    factor = cosine(CosineConfig(warmup_updates=2, end_rate=0.1), 10)
    assert [factor(1), factor(2), factor(3)] == [0.5, 1, 1]
    for n in range(3, 11):
        assert factor(n) == pytest.approx(
            0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (n - 3) / 8)), abs=1e-12
        )
    assert factor(11) == factor(99) == pytest.approx(0.1)


def test_cosine_restarts_in_every_cycle():
    once, twice = cosine(CosineConfig(), 4), cosine(CosineConfig(cycles=2), 8)
    assert [twice(n) for n in range(1, 9)] == pytest.approx([once(n) for n in (1, 2, 3, 4)] * 2)


def test_fixed_rises_to_its_peak_and_stays():
    schedule = fixed_rate(WarmupConfig(warmup_updates=4), 9)
    assert [schedule(n) for n in (1, 2, 4, 9)] == [0.25, 0.5, 1, 1]
    assert fixed_rate(WarmupConfig(), 9)(1) == 1


@pytest.mark.parametrize(
    "name", ["linear", "polynomial", "cosine", "inverse_sqrt", "fixed", "wsd", "plateau"]
)
def test_schedules_are_finite_if_warmup_outlasts_training(name):
    entry = LR_SCHEDULERS[name]
    factor = entry.factory(type(entry.config)(warmup_updates=10), 5)
    assert [factor(n) for n in (1, 5)] == [0.1, 0.5]
    assert all(0 <= factor(n) <= 1 for n in range(1, 20))


@pytest.mark.parametrize(
    ("shape", "left"), [("linear", lambda x: 1 - x), ("sqrt", lambda x: 1 - math.sqrt(x))]
)
def test_wsd_stays_at_its_peak_and_decays_at_the_end(shape, left):
    c = WsdConfig(warmup_updates=4, decay_fraction=0.25, shape=shape, end_rate=0.2)
    factor = wsd(c, 16)
    assert [factor(n) for n in (1, 2, 4, 5, 12, 13)] == [0.25, 0.5, 1, 1, 1, 1]
    for n in (13, 14, 15, 16):
        assert factor(n) == pytest.approx(0.2 + 0.8 * left((n - 13) / 4))
    assert factor(17) == factor(40) == pytest.approx(0.2)


def test_tri_stage_warms_up_holds_and_decays_exponentially():
    c = TriStageConfig(phase_ratio=[0.2, 0.3, 0.5], start_rate=0.1, end_rate=0.01)
    factor = tri_stage(c, 20)
    rising = [0.1 + 0.9 * n / 4 for n in (1, 2, 3, 4)]
    falling = [math.exp(math.log(0.01) * (n - 10) / 10) for n in range(11, 21)]
    expected = rising + [1.0] * 6 + falling
    assert [factor(n) for n in range(1, 21)] == pytest.approx(expected, rel=1e-12)
    assert factor(20) == factor(30) == pytest.approx(0.01)


@pytest.mark.parametrize("name", [*LR_SCHEDULERS.builtins])
@pytest.mark.parametrize(
    "total", [1, 2, 12, 60, 1000, pytest.param(250_000, marks=pytest.mark.slow)]
)
def test_schedules_that_fit_their_run_are_not_remarked_on(name, total):
    config = LR_SCHEDULERS[name].config
    if hasattr(config, "warmup_updates"):
        config = replace(config, warmup_updates=total // 6)
    assert describe_misfit(LR_SCHEDULERS[name].factory(config, total), total) == ""


def test_warmup_that_does_not_fit_the_run_is_described():
    slow = inverse_sqrt(WarmupConfig(warmup_updates=4000), 10)
    assert "rises to 0.2% of its peak only" in describe_misfit(slow, 10)
    late = wsd(WsdConfig(warmup_updates=960, decay_fraction=0.1), 1000)
    assert "falls from its peak to 22.5% in one update" in describe_misfit(late, 1000)

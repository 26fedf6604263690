import math

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.optim.schedules import TriStageConfig, WsdConfig, tri_stage, wsd


@pytest.mark.parametrize(
    ("shape", "left"), [("linear", lambda x: 1 - x), ("sqrt", lambda x: 1 - math.sqrt(x))]
)
def test_wsd_stays_at_its_peak_and_decays_in_the_last_share(shape, left):
    c = WsdConfig(warmup_updates=4, decay_fraction=0.25, shape=shape, end_rate=0.2)
    factor = wsd(c, 16)
    assert [factor(n) for n in (1, 2, 4, 5, 12, 13)] == [0.25, 0.5, 1, 1, 1, 1]
    for n in (13, 14, 15, 16):
        assert factor(n) == pytest.approx(0.2 + 0.8 * left((n - 13) / 4))
    assert factor(17) == factor(40) == pytest.approx(0.2)


def test_wsd_without_decay_stays_at_its_peak():
    assert [wsd(WsdConfig(decay_fraction=0.0), 5)(n) for n in (1, 5, 9)] == [1, 1, 1]


def test_tri_stage_warms_up_holds_and_decays_exponentially():
    c = TriStageConfig(phase_ratio=[0.2, 0.3, 0.5], start_rate=0.1, end_rate=0.01)
    factor = tri_stage(c, 20)
    rising = [0.1 + 0.9 * n / 4 for n in (1, 2, 3, 4)]
    falling = [math.exp(math.log(0.01) * (n - 10) / 10) for n in range(11, 21)]
    wanted = rising + [1.0] * 6 + falling
    assert [factor(n) for n in range(1, 21)] == pytest.approx(wanted, rel=1e-12)
    assert factor(20) == factor(30) == pytest.approx(0.01)


def test_tri_stage_may_leave_stages_out():
    factor = tri_stage(TriStageConfig(phase_ratio=[0.0, 1.0, 0.0]), 5)
    assert [factor(n) for n in (1, 5, 9)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (WsdConfig, {"shape": "round"}, "shape must be one of linear, sqrt, but is 'round'"),
        (
            WsdConfig,
            {"decay_fraction": 2.0},
            "decay_fraction must be at least 0 and at most 1",
        ),
        (TriStageConfig, {"phase_ratio": [0.5, 0.6]}, "three fractions that sum to 1, but is 0.5,"),
        (TriStageConfig, {"phase_ratio": [0.5, 0.6, 0.1]}, "sum to 1, but is 0.5,0.6,0.1"),
        (TriStageConfig, {"end_rate": 0.0}, "end_rate must be above 0 and at most 1, but is 0.0"),
    ],
)
def test_impossible_stages_are_refused(config, options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**options)

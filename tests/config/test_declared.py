from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import (
    ADVANCED,
    AtLeast,
    Hint,
    NonNegativeInt,
    Options,
    PositiveInt,
    Rate,
    Size,
    list_options,
)
from toolkit.config.declared import Above as AboveZero


@dataclass(frozen=True, kw_only=True)
class Shared(Options, title="devices"):
    device: Literal["auto", "cpu"] = "auto"


@dataclass(frozen=True, kw_only=True)
class Config(Shared, section="training"):
    seed: NonNegativeInt = 1
    limit: PositiveInt | None = None
    unit: Literal["a", "b"] | None = None
    layers: list[PositiveInt] = field(default_factory=list)
    rate: Rate = 0.0
    length: Annotated[int, AtLeast(5, or_zero=True)] = 0
    draws: int = 1
    width: Size = 1
    kind: Annotated[Literal["a"], Hint("See --other.")] = "a"
    scale: Annotated[float, AboveZero(0)] = field(default=1.0, metadata=ADVANCED)


def test_values_within_their_choices_and_ranges_are_accepted():
    Config(seed=0, limit=1, unit="b", layers=[1, 2], rate=0.5, length=5, device="cpu")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, r"training.seed must be at least 0, but is -1."),
        ({"limit": 0}, r"training.limit must be at least 1, but is 0."),
        ({"unit": "c"}, r"training.unit must be one of a, b, but is 'c'."),
        ({"device": "x"}, r"training.device must be one of auto, cpu, but is 'x'."),
        ({"layers": [1, 0]}, r"each item of training.layers must be at least 1, but is 0."),
        ({"rate": 1.0}, r"training.rate must be at least 0 and below 1, but is 1.0."),
        ({"rate": float("nan")}, r"training.rate must be at least 0 and below 1, but is nan."),
        ({"rate": float("-inf")}, r"training.rate must be at least 0 and below 1, but is -inf."),
        ({"scale": float("nan")}, r"training.scale must be above 0, but is nan."),
        ({"scale": float("inf")}, r"training.scale must be finite, but is inf."),
        ({"seed": 2**31}, r"training.seed must be at most 2147483647, but is 2147483648."),
        ({"layers": [2**63]}, r"each item of training.layers must be at most 2147483647, but is"),
        ({"width": 10**7}, r"training.width must be at most 1048576, but is 10000000."),
        ({"draws": 2**63}, r"training.draws must be from -9223372036854775807 to 92"),
        ({"kind": "b"}, r"training.kind must be one of a, but is 'b'. See --other."),
        ({"length": 3}, r"training.length must be 0 or at least 5, but is 3."),
    ],
)
def test_values_outside_their_choices_or_range_are_rejected(options, message):
    with pytest.raises(ToolkitError, match=message):
        Config(**options)


def test_options_carry_choices_ranges_titles_and_advanced():
    found = {option.name: option for option in list_options("training", Config)}
    assert next(iter(found)) == "device" and found["device"].group == "devices"
    assert found["device"].type.choices == ("auto", "cpu")
    assert found["rate"].type.rule == "at least 0 and below 1" and not found["rate"].advanced
    assert found["width"].type.rule == "at least 1"
    assert found["scale"].advanced and found["unit"].type.optional

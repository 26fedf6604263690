from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import (
    ADVANCED,
    Above as AboveZero,
    AtLeast,
    NonNegativeInt,
    Options,
    PositiveInt,
    Rate,
    Size,
    field_help,
    list_options,
    read_field_docs,
)


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
    kind: Annotated[Literal["a"], "See --other."] = "a"
    scale: Annotated[float, AboveZero(0)] = field(default=1.0, metadata=ADVANCED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, r"training.seed must be at least 0, but is -1."),
        ({"unit": "c"}, r"training.unit must be one of a, b, but is 'c'."),
        ({"layers": [1, 0]}, r"each item of training.layers must be at least 1, but is 0."),
        ({"rate": float("nan")}, r"training.rate must be at least 0 and below 1, but is nan."),
        ({"scale": float("inf")}, r"training.scale must be finite, but is inf."),
        ({"seed": 2**31}, r"training.seed must be at most 2147483647, but is 2147483648."),
        ({"width": 10**7}, r"training.width must be at most 1048576, but is 10000000."),
        ({"draws": 2**63}, r"training.draws must be from -9223372036854775807 to 92"),
        ({"kind": "b"}, r"training.kind must be one of a, but is 'b'. See --other."),
        ({"length": 3}, r"training.length must be 0 or at least 5, but is 3."),
    ],
)
def test_values_outside_their_choices_or_range_are_rejected(options, message):
    with pytest.raises(ToolkitError, match=message):
        Config(**options)


@dataclass
class Wrong:
    pair: tuple[int, int] = (0, 0)


@dataclass
class Named:
    name: str = ""


@pytest.mark.parametrize("config", [Wrong, Named])
def test_field_of_another_type_is_rejected(config):
    with pytest.raises(ToolkitError, match=r"arch\.(pair|name) must be a field of type bool, int"):
        list_options("arch", config)


@dataclass
class Parent:
    a: int = 0
    """What a is,
    on two lines."""
    b: int = 0


@dataclass
class Child(Parent):
    b: int = 1
    """What b is."""


def test_inherited_fields_keep_their_help():
    assert field_help(Child) == {"a": "What a is, on two lines.", "b": "What b is."}


def test_field_docs_are_read_without_importing_the_file(tmp_path):
    file = tmp_path / "part.py"
    file.write_text('1 / 0\nclass C:\n    lr: float = 1.0\n    """Rate."""\n')
    assert read_field_docs(str(file)) == {"C": {"lr": ("float", "Rate.")}}


def test_class_without_a_source_file_has_no_help(monkeypatch):
    monkeypatch.setattr(Parent, "__module__", "__no_such_module__")
    assert field_help(Parent) == {}

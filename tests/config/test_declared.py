from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import (
    ADVANCED,
    NO_SPLIT,
    AtLeast,
    FieldDoc,
    NonNegativeInt,
    Options,
    PositiveInt,
    Rate,
    Size,
    field_help,
    list_options,
    read_field_docs,
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
    kind: Annotated[Literal["a"], "See --other."] = "a"
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


@dataclass(frozen=True, kw_only=True)
class SizedConfig:
    width: int = 4
    """Width."""
    rate: float | None = None
    names: list[str] = field(default_factory=lambda: ["x"])
    grid: list[str] = field(default_factory=list, metadata=NO_SPLIT)


def options(config=SizedConfig):
    return {option.name: option for option in list_options("arch", config)}


def test_field_is_an_option_with_its_type_default_and_help():
    width = options()["width"]
    assert (width.path, width.flag, width.type.scalar) == ("arch.width", "--arch.width", int)
    assert (width.default, width.help) == (4, "Width.")


def test_instance_gives_the_defaults():
    assert options(SizedConfig(width=9))["width"].default == 9


def test_optional_and_list_fields_are_distinguished():
    found = options()
    assert found["rate"].type.optional and found["rate"].type.scalar is float
    assert (
        found["names"].type.is_list
        and found["names"].type.scalar is str
        and found["names"].default == ["x"]
    )
    assert found["names"].separator == "," and found["grid"].separator is None


def test_rule_states_what_a_value_must_be():
    found = options()
    assert found["rate"].rule == "a number or none"
    assert found["names"].rule == "a list, each item text"


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


def test_string_under_a_field_is_its_help():
    assert field_help(Parent) == {"a": "What a is, on two lines."}


def test_inherited_fields_keep_their_help():
    assert field_help(Child) == {"a": "What a is, on two lines.", "b": "What b is."}


def test_field_docs_are_read_without_importing_the_file(tmp_path):
    file = tmp_path / "part.py"
    file.write_text('1 / 0\nclass C:\n    lr: float = 1.0\n    """Rate."""\n')
    assert read_field_docs(str(file)) == {"C": {"lr": FieldDoc("float", "Rate.")}}


def test_class_without_a_source_file_has_no_help(monkeypatch):
    monkeypatch.setattr(Parent, "__module__", "__no_such_module__")
    assert field_help(Parent) == {}

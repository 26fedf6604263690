from dataclasses import dataclass, field

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.options import NO_SPLIT, list_options


@dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 4
    """Width."""
    rate: float | None = None
    names: list[str] = field(default_factory=lambda: ["x"])
    grid: list[str] = field(default_factory=list, metadata=NO_SPLIT)


def options(config=Config):
    return {option.name: option for option in list_options("arch", config)}


def test_a_field_is_an_option_with_its_type_default_and_help():
    width = options()["width"]
    assert (width.path, width.flag, width.type.scalar) == ("arch.width", "--arch.width", int)
    assert (width.default, width.help) == (4, "Width.")


def test_an_instance_gives_the_defaults():
    assert options(Config(width=9))["width"].default == 9


def test_optional_and_list_fields_are_told_apart():
    found = options()
    assert found["rate"].type.optional and found["rate"].type.scalar is float
    assert (
        found["names"].type.is_list
        and found["names"].type.scalar is str
        and found["names"].default == ["x"]
    )
    assert found["names"].separator == "," and found["grid"].separator is None


def test_a_rule_says_what_a_value_must_be():
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
def test_a_field_that_cannot_be_an_option_is_an_error(config):
    with pytest.raises(ToolkitError, match=r"arch\.(pair|name) must be a field of type bool, int"):
        list_options("arch", config)

from dataclasses import dataclass, field

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import NO_SPLIT, FieldDoc, field_help, list_options, read_field_docs


@dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 4
    """Width."""
    rate: float | None = None
    names: list[str] = field(default_factory=lambda: ["x"])
    grid: list[str] = field(default_factory=list, metadata=NO_SPLIT)


def options(config=Config):
    return {option.name: option for option in list_options("arch", config)}


def test_field_is_an_option_with_its_type_default_and_help():
    width = options()["width"]
    assert (width.path, width.flag, width.type.scalar) == ("arch.width", "--arch.width", int)
    assert (width.default, width.help) == (4, "Width.")


def test_instance_gives_the_defaults():
    assert options(Config(width=9))["width"].default == 9


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

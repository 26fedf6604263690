from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import NO_SPLIT, list_options
from toolkit.config.values import OptionValue, build_config, flatten_sections, plain_value


def built(flat, values):
    given = {path: OptionValue(value, f"--{path}") for path, value in values.items()}
    return build_config(flat.config, list_options("", flat.config), given)


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("share", "1e-4", 1e-4),
        ("limit", "12", 12),
        ("limit", "none", None),
        ("shout", "yes", True),
        ("language", "no", "no"),
        ("title", "null", "null"),
        ("parts", "1,2", [1, 2]),
        ("files", "a,b", ["a,b"]),
        ("files", (Path("a"), "b"), ["a", "b"]),
        ("share", np.float64(0.25), 0.25),
    ],
)
def test_value_is_parsed_by_the_type_of_its_field(flat, path, text, value):
    found = getattr(built(flat, {path: text}), path)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("limit", "many", r"limit must be a whole number or none, but is 'many' \(--limit\)"),
        ("shout", "perhaps", "shout must be true or false, but is 'perhaps'"),
        ("parts", "1,x", "parts must be a list, each item a whole number, but is '1,x'"),
    ],
)
def test_value_of_another_type_is_rejected_with_its_origin(flat, path, text, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        built(flat, {"language": "en", path: text})


@dataclass
class Config:
    rate: float | None = None
    """Rate."""
    title: str | None = None
    names: list[str] = field(default_factory=list)
    grid: list[str] = field(default_factory=list, metadata=NO_SPLIT)


OPTIONS = {option.name: option for option in list_options("task", Config)}


@pytest.mark.parametrize("value", [["x", "a ${y} c"], "???"])
def test_interpolation_is_rejected_everywhere(value):
    with pytest.raises(ToolkitError, match=r"must be a plain value, but is .* nothing is interpol"):
        plain_value(OPTIONS["names"], value)


@pytest.mark.parametrize("value", [{"a": "${b}"}, [["${b}"]]])
def test_nested_values_are_rejected(value):
    with pytest.raises(ToolkitError, match=r"task.title must hold no sections or nested lists"):
        plain_value(OPTIONS["title"], value)


def test_sections_are_flattened_and_a_component_may_be_named_alone(train):
    tree = {"arch": {"name": "taco", "layers": "2"}, "task": "mlm", "odd": None}
    assert flatten_sections(tree, train, "f") == {
        "arch.name": OptionValue("taco", "f"),
        "arch.layers": OptionValue("2", "f"),
        "task.name": OptionValue("mlm", "f"),
        "odd": OptionValue(None, "f"),
    }


def test_empty_section_sets_nothing_but_an_empty_field_does(train, flat):
    assert flatten_sections({"data": None, "arch": None}, train, "f") == {}
    assert flatten_sections({"title": None}, flat, "f") == {"title": OptionValue(None, "f")}

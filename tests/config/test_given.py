from dataclasses import dataclass, field

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.options import NO_SPLIT, list_options
from toolkit.config.sources import flatten_sections
from toolkit.config.values import OptionValue, parse_value


@dataclass
class Config:
    rate: float | None = None
    """Rate."""
    title: str | None = None
    names: list[str] = field(default_factory=list)
    grid: list[str] = field(default_factory=list, metadata=NO_SPLIT)


OPTIONS = {option.name: option for option in list_options("task", Config)}


@pytest.mark.parametrize("text", ["none", "null", ""])
def test_none_is_what_it_says_where_a_number_is_wanted(text):
    assert parse_value(OPTIONS["rate"], text) is None


@pytest.mark.parametrize("text", ["none", "null", "", "no", "1e3", "~"])
def test_text_is_taken_as_it_is(text):
    assert parse_value(OPTIONS["title"], text) == text


def test_a_list_given_as_text_is_parted_at_commas_unless_it_is_whole():
    assert parse_value(OPTIONS["names"], "a,b") == ["a", "b"]
    assert parse_value(OPTIONS["names"], "") == []
    assert parse_value(OPTIONS["grid"], "a=1,2") == ["a=1,2"]


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "a ${b} c", ["x", "${y}"], "???"])
def test_references_are_refused_wherever_they_stand(value):
    with pytest.raises(ToolkitError, match=r"must be a plain value, but is .* nothing is interpol"):
        parse_value(OPTIONS["names"], value)


@pytest.mark.parametrize("value", [{"a": "${b}"}, [["${b}"]], [{}]])
def test_nothing_nested_is_a_value(value):
    with pytest.raises(ToolkitError, match=r"task.title must hold no sections or nested lists"):
        parse_value(OPTIONS["title"], value)


def test_sections_become_paths_and_a_component_may_be_named_alone(train):
    tree = {"arch": {"name": "taco", "layers": "2"}, "task": "mlm", "odd": None}
    assert flatten_sections(tree, train, "f") == {
        "arch.name": OptionValue("taco", "f"),
        "arch.layers": OptionValue("2", "f"),
        "task.name": OptionValue("mlm", "f"),
        "odd": OptionValue(None, "f"),
    }


def test_an_empty_section_sets_nothing_but_an_empty_field_does(train, flat):
    assert flatten_sections({"data": None, "arch": None}, train, "f") == {}
    assert flatten_sections({"title": None}, flat, "f") == {"title": OptionValue(None, "f")}

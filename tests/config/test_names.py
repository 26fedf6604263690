from dataclasses import dataclass

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import Registry
from toolkit.config.command import Command
from toolkit.config.declared import Option, OptionType
from toolkit.config.load import early_options, index_by_path, resolve_components
from toolkit.config.names import RESERVED_NAMES, find_option
from toolkit.config.values import OptionValue


@dataclass(frozen=True)
class Config:
    tag: str = ""
    """Tag."""


def option(path):
    return Option(path, OptionType(int), 0, "")


def command(**components):
    return Command(name="", summary="", example="", config=Config, components=components)


OPTIONS = index_by_path(
    map(
        option, ["arch.width", "arch.dropout", "task.dropout", "data.max_tokens", "task.max_tokens"]
    )
)


def test_ambiguous_last_part_lists_the_full_names():
    expected = "--dropout is ambiguous. Write --arch.dropout or --task.dropout"
    with pytest.raises(ToolkitError, match=expected):
        find_option("dropout", OPTIONS)


@pytest.mark.parametrize(("name", "hint"), [("widthh", "--width"), ("arch.widthh", "--arch.width")])
def test_unknown_flag_suggests_the_nearest_one(name, hint):
    with pytest.raises(ToolkitError, match=rf"no option is called --\S+\. Did you mean {hint}\?"):
        find_option(name, OPTIONS)


def test_option_of_other_components_names_them():
    registry = Registry("data format", {})
    for name in ("one", "two"):
        registry.register(name, Config())(name.upper)
    expected = "^--tag requires --format one, two.$"
    with pytest.raises(ToolkitError, match=expected):
        find_option("tag", {"path": option("path")}, command(format=registry))
    with pytest.raises(ToolkitError, match=r"^format.tag \(f.yaml\) requires --format one, two"):
        find_option(
            "format.tag", {"path": option("path")}, command(format=registry), origin="f.yaml"
        )


def test_reserved_names_are_names_of_options(train):
    named = {
        "arch.name": OptionValue("composite_bert_tiny", ""),
        "task.name": OptionValue("mlm", ""),
    }
    options = index_by_path(resolve_components(named, train).options)
    assert set(RESERVED_NAMES.values()) <= set(options)
    assert set(early_options(train)) >= {
        "arch",
        "task",
        "criterion",
        "optimizer",
        "lr_scheduler",
        "help",
    }

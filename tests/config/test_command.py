from dataclasses import dataclass

from toolkit.common.registry import COMPONENTS
from toolkit.config.command import Command


@dataclass(frozen=True)
class Bare:
    top: int = 1
    """Answers to give."""


def test_command_without_sections_has_the_fields_of_its_class(flat):
    assert [option.path for option in flat.fixed_options()][:3] == ["files", "language", "title"]
    assert flat.components == {} and flat.positional == "files"


def test_command_without_positional_has_no_positional_option():
    assert Command(name="c", summary="", example="", config=Bare).positional == ""


def test_training_command_has_the_sections_of_a_run_and_sweep(train):
    assert set(train.fixed_sections()) == {"data", "training", "checkpoint", "logging", "sweep"}
    assert train.components is COMPONENTS and train.positional == "data.dirs"


def test_list_option_requires_components(flat, train):
    assert "list" not in [option.name for option in flat.command_line_options()]
    assert "list" in [option.name for option in train.command_line_options()]


def test_command_options_do_not_shadow_those_of_every_command(flat, train):
    for command in (flat, train):
        every = {option.name for option in command.command_line_options()}
        assert not every & {option.name for option in command.fixed_options()}

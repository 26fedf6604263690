from dataclasses import dataclass

from toolkit.common.registry import COMPONENTS
from toolkit.config.command import Command


@dataclass(frozen=True)
class Bare:
    top: int = 1
    """Answers to give."""


def test_a_command_without_sections_has_the_fields_of_its_class(flat):
    assert [option.path for option in flat.fixed_options()][:3] == ["files", "language", "title"]
    assert flat.components == {} and flat.positional == "files"


def test_a_command_whose_class_names_no_positional_option_has_none():
    assert Command(name="c", summary="", example="", config=Bare).positional == ""


def test_the_training_command_has_the_sections_of_a_run_and_its_own(train):
    assert set(train.fixed_sections()) == {"data", "training", "checkpoint", "logging", "sweep"}
    assert train.components is COMPONENTS and train.positional == "data.dirs"


def test_only_a_command_with_components_can_list_them(flat, train):
    assert "list" not in [option.name for option in flat.command_line_options()]
    assert "list" in [option.name for option in train.command_line_options()]


def test_no_option_of_a_command_hides_one_of_every_command(flat, train):
    for command in (flat, train):
        every = {option.name for option in command.command_line_options()}
        assert not every & {option.name for option in command.fixed_options()}

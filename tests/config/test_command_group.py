from dataclasses import dataclass

import pytest

from toolkit.cli.command import execute
from toolkit.config.command import Command, CommandGroup
from toolkit.config.declared import Options, PositiveInt


@dataclass(frozen=True, kw_only=True)
class Config(Options, title="sizes"):
    count: PositiveInt = 1
    """Number of things."""


def group(infer=None):
    commands = {
        word: Command(name=f"toolkit-test {word}", summary=f"Do {word}.", example="", config=Config)
        for word in ("one", "two")
    }
    return CommandGroup(
        name="toolkit-test", summary="", example="", metavar="MODE", commands=commands, infer=infer
    )


def test_first_word_selects_a_command():
    seen = []
    assert execute(group(), lambda loaded: seen.append(loaded.config), ["two", "--count", "3"]) == 0
    assert seen == [Config(count=3)]


def test_command_group_infers_the_command_from_its_options():
    seen = []
    inferring = group(lambda argv: "one" if "--count" in argv else "")
    assert execute(inferring, lambda loaded: seen.append(loaded.config), ["--count", "3"]) == 0
    assert seen == [Config(count=3)]


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_of_a_command_group_lists_its_commands(capsys, words):
    assert execute(group(), lambda loaded: pytest.fail("acted"), words) == 0
    assert "MODE:\n  one  Do one.\n  two  Do two." in capsys.readouterr().out


def test_help_of_a_command_shows_its_groups_and_ranges(capsys):
    assert execute(group(), lambda loaded: pytest.fail("acted"), ["one", "--help"]) == 0
    assert "sizes:\n  --count N  Number of things. (default: 1)" in capsys.readouterr().out


def test_unknown_first_word_is_a_user_error(capsys):
    assert execute(group(), lambda loaded: pytest.fail("acted"), ["three"]) == 2
    expected = "toolkit-test needs a MODE; the first word is 'three', but must be one of one, two."
    assert expected in capsys.readouterr().err

from dataclasses import dataclass

import pytest

from toolkit.cli.command import execute
from toolkit.cli.predict import COMMAND as PREDICT
from toolkit.cli.validate import COMMAND as VALIDATE
from toolkit.common.errors import ToolkitError
from toolkit.config.command import Command, CommandGroup
from toolkit.config.declared import Options, PositiveInt
from toolkit.config.load import load
from toolkit.data.storage.data_folder import DataFolder


def test_command_options_do_not_shadow_those_of_every_command(flat, train):
    for command in (flat, train):
        every = {option.name for option in command.command_line_options()}
        assert not every & {option.name for option in command.fixed_options()}


@dataclass(frozen=True, kw_only=True)
class Config(Options, title="sizes"):
    count: PositiveInt = 1
    """Number of things."""


def group(act, infer=None):
    commands = {
        word: Command(
            name=f"toolkit-test {word}", summary=f"Do {word}.", example="", config=Config, act=act
        )
        for word in ("one", "two")
    }
    return CommandGroup(
        name="toolkit-test", summary="", example="", metavar="MODE", commands=commands, infer=infer
    )


def test_command_group_infers_the_command_from_its_options():
    seen = []
    inferring = group(seen.append, lambda argv: "one" if "--count" in argv else "")
    assert execute(inferring, ["--count", "3"]) == 0
    assert seen == [Config(count=3)]


def test_help_of_a_command_group_lists_its_commands(capsys):
    assert execute(group(pytest.fail), ["--help"]) == 0
    assert "MODE:\n  one  Do one.\n  two  Do two." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "words", "expected"),
    [
        (PREDICT, "book.txt", "unexpected argument 'book.txt': options start with --."),
        (VALIDATE, "no/data --path run", "No such data folder: no/data. Run toolkit-preprocess"),
        (
            VALIDATE,
            "book.txt --path run",
            "toolkit-preprocess --trainpref book.txt --destdir",
        ),
    ],
    ids=["unexpected", "missing", "text"],
)
def test_misplaced_path_is_one_line_with_the_next_step(
    tmp_path, monkeypatch, command, words, expected
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text("Text.\n")
    with pytest.raises(ToolkitError) as error:
        DataFolder.open(*load(words.split(), command).config.dirs)
    assert expected in str(error.value)

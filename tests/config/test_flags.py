import pytest

from toolkit.cli.average import COMMAND as AVERAGE
from toolkit.cli.convert import DIRECTIONS
from toolkit.cli.generate import MODES
from toolkit.cli.inspect import COMMAND as INSPECT
from toolkit.cli.plot import KINDS
from toolkit.cli.validate import COMMAND as VALIDATE, COMPLETIONS
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.commands.train import TRAIN
from toolkit.config.declared import to_flag
from toolkit.config.load import index_by_path, resolve
from toolkit.config.names import find_option
from toolkit.config.values import read_flags, read_words


@pytest.fixture
def parsed(flat):
    def words(text):
        found = resolve(text.split(" "), flat).values
        return {path: given.value for path, given in found.items()}

    return words


def test_value_follows_its_flag_or_an_equals_sign(parsed):
    assert parsed("--share 0.1") == parsed("--share=0.1") == {"share": "0.1"}


def test_value_may_start_with_one_dash_or_after_equals_with_anything(parsed):
    assert parsed("--share -1") == {"share": "-1"}
    assert parsed("--title=--x=y") == {"title": "--x=y"}


def test_bool_needs_no_value_and_takes_one_that_says_true_or_false(parsed):
    assert parsed("--shout a") == {"shout": "true", "files": ["a"]}
    assert parsed("--shout False a") == {"shout": "False", "files": ["a"]}
    assert parsed("--shout=yes") == {"shout": "yes"}


def test_words_without_flag_fill_the_positional_option_unchanged(parsed):
    assert parsed("a,b --limit 3 c")["files"] == ["a,b", "c"]
    assert parsed("-")["files"] == ["-"]


def test_words_after_two_dashes_are_positional(parsed):
    assert parsed("--shout -- --limit true") == {"shout": "true", "files": ["--limit", "true"]}
    assert parsed("-- -h")["files"] == ["-h"]


def test_last_of_repeated_flags_counts_even_for_a_list(parsed):
    assert parsed("--limit 1 --limit 2") == {"limit": "2"}
    assert parsed("--parts 1,2 --parts 3") == {"parts": ["3"]}


def test_multi_word_list_takes_every_word_up_to_the_next_flag(parsed):
    assert parsed("x --path a b,c --limit 1 y") == {
        "path": ["a", "b", "c"],
        "limit": "1",
        "files": ["x", "y"],
    }


LISTS = [(TRAIN, "dirs"), (PREPROCESS, "trainpref"), (PREPROCESS, "validpref")]
LISTS += [(PREPROCESS, "testpref"), (VALIDATE, "path"), (COMPLETIONS, "path")]
LISTS += [(mode, "path") for mode in MODES[:4]] + [
    (command, command.positional)
    for command in (VALIDATE, COMPLETIONS, AVERAGE, INSPECT, *DIRECTIONS, *MODES, *KINDS)
    if command.positional
]


@pytest.mark.parametrize(
    ("command", "name"), LISTS, ids=[f"{command.name} {name}" for command, name in LISTS]
)
def test_list_of_files_takes_all_words_that_a_shell_expands(command, name):
    options = index_by_path(command.fixed_options())
    argv = [to_flag(name), "a", "b", "c"]
    [given] = read_flags(read_words(argv), lambda name: find_option(name, options))[0].values()
    assert given.value in (["a", "b", "c"], "a,b,c")

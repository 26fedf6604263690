import shlex
from dataclasses import dataclass

import pytest

from toolkit.cli.command import execute
from toolkit.cli.generate import COMMAND as GENERATE
from toolkit.cli.inspect import COMMAND as INSPECT
from toolkit.cli.predict import COMMAND as PREDICT
from toolkit.cli.validate import COMMAND as VALIDATE
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import Command, CommandGroup, identify_path
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.commands.train import TRAIN
from toolkit.config.declared import Options, PositiveInt
from toolkit.config.load import load
from toolkit.data.storage.data_folder import DataFolder


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


def test_first_word_selects_a_command():
    seen = []
    assert execute(group(seen.append), ["two", "--count", "3"]) == 0
    assert seen == [Config(count=3)]


def test_command_group_infers_the_command_from_its_options():
    seen = []
    inferring = group(seen.append, lambda argv: "one" if "--count" in argv else "")
    assert execute(inferring, ["--count", "3"]) == 0
    assert seen == [Config(count=3)]


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_of_a_command_group_lists_its_commands(capsys, words):
    assert execute(group(pytest.fail), words) == 0
    assert "MODE:\n  one  Do one.\n  two  Do two." in capsys.readouterr().out


def test_help_of_a_command_shows_its_groups_and_ranges(capsys):
    assert execute(group(pytest.fail), ["one", "--help"]) == 0
    assert "sizes:\n  --count N  Number of things. (default: 1)" in capsys.readouterr().out


def test_unknown_first_word_is_a_user_error(capsys):
    assert execute(group(pytest.fail), ["three"]) == 2
    expected = "toolkit-test needs a MODE; the first word is 'three', but must be one of one, two."
    assert expected in capsys.readouterr().err


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The working directory, with files and folders that are often given as data."""
    monkeypatch.chdir(tmp_path)
    contents = {
        "book.txt": "Text.\n",
        "my book.txt": "Text.\n",
        "rows.jsonl": '{"text": "a"}\n',
        "train.json": '{"data": [{"paragraphs": []}]}',
        "run.yaml": "arch: bert\n",
        "texts/a.txt": "a\n",
        "texts/.hidden.jsonl": "a\n",
        "ud/LICENSE": "free\n",
        "ud/en-train.conllu": "1\n",
        "CoLA/train.tsv": "a\n",
        "dataset/dataset_info.json": "{}",
        "corpus/train.de": "eins\n",
        "corpus/train.en": "one\n",
        "run/checkpoint_best/manifest.json": "{}",
        "run/checkpoint_best/state.json": "{}",
        "run/checkpoint_best/tokenizer_config.json": "{}",
        "model/config.json": "{}",
        "model/model.safetensors": "",
        "model/tokenizer_config.json": "{}",
        "data/meta.json": "{}",
        "fairseq/train.idx": "",
        "lost/tokenizer_config.json": "{}",
        "empty/x/y.txt": "a\n",
    }
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\0")


@pytest.mark.parametrize(
    ("words", "description", "options"),
    [
        ("book.txt", "book.txt is a text file", "--trainpref book.txt"),
        ("book.txt texts/a.txt", "book.txt is a text file", "--trainpref book.txt,texts/a.txt"),
        ("'my book.txt'", "my book.txt is a text file", "--trainpref 'my book.txt'"),
        ("texts", "texts is a folder of text files", "--trainpref texts"),
        ("rows.jsonl", "rows.jsonl is a .jsonl file", "--trainpref rows.jsonl --text-field FIELD"),
        ("dataset", "dataset is a Hugging Face dataset", "--trainpref dataset --text-field FIELD"),
        ("train.json", "train.json is a .json file", "--trainpref train.json --format squad"),
        ("ud", "ud is a folder of .conllu files", "--trainpref ud --format conllu"),
        ("CoLA", "CoLA is a folder of tables", "--trainpref CoLA --format glue --glue-task TASK"),
        (
            "corpus/train",
            "corpus/train is text in de and en",
            "--trainpref corpus/train --source-lang de --target-lang en",
        ),
    ],
)
def test_training_on_raw_text_names_the_commands_to_run(files, words, description, options):
    expected = (
        f"{description}, not a data folder. Run toolkit-preprocess {options} --destdir data, then "
        f"toolkit-train data."
    )
    with pytest.raises(ToolkitError) as error:
        load([*shlex.split(words), "--arch", "bert_tiny", "--task", "mlm"], TRAIN)
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("command", "words", "expected"),
    [
        (TRAIN, "run", "run is a save folder, not a data folder. Write --finetune-from run, or"),
        (TRAIN, "run.yaml", "run.yaml is a configuration file, not a data folder. Write --config"),
        (
            TRAIN,
            "model",
            "a model of Transformers, not a data folder. Run toolkit-convert import",
        ),
        (VALIDATE, "run/checkpoint_best", "is a checkpoint, not a data folder. Write --path run/"),
        (VALIDATE, "book.txt", "--validpref book.txt --tokenizer-from RUN --destdir data"),
        (PREDICT, "book.txt", "unexpected argument 'book.txt'. Write --input book.txt."),
        (PREDICT, "run", "unexpected argument 'run'. Write --path run."),
        (PREDICT, "--path run rows.jsonl", "'rows.jsonl'. Write --input rows.jsonl."),
        (PREPROCESS, "book.txt", "unexpected argument 'book.txt'. Write --trainpref book.txt."),
        (PREPROCESS, "--workers 1 book.txt", "'book.txt'. Write --trainpref book.txt."),
        (PREPROCESS, "x.txt", "unexpected argument 'x.txt': options start with --. See --help."),
        (GENERATE.commands["translate"], "book.txt", "Write --input book.txt."),
        (GENERATE.commands["fill-mask"], "book.txt", "Write --input book.txt."),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_misplaced_path_names_the_option_that_takes_it(files, command, words, expected):
    with pytest.raises(ToolkitError) as error:
        load(shlex.split(words), command)
    assert expected in str(error.value)


def test_generating_from_a_file_without_a_model_names_the_option(files):
    with pytest.raises(ToolkitError, match=r"^book.txt is a text file.* Write --input book.txt.$"):
        GENERATE.answer(["book.txt"])


def test_raw_text_that_is_opened_as_data_names_the_command_to_run(files):
    expected = r"^book.txt is a text file, .* Run toolkit-preprocess --trainpref book.txt --destdir"
    with pytest.raises(ToolkitError, match=expected):
        DataFolder.open("book.txt")
    with pytest.raises(ToolkitError, match=r"^No such data folder: nothing. Run toolkit-preproc"):
        DataFolder.open("nothing")


@pytest.mark.parametrize(
    "path", ["data", "fairseq", "lost", "empty", "nothing", "picture.png", "x" * 5000]
)
def test_data_folders_and_unknown_paths_are_not_identified(files, path):
    assert identify_path(path) is None


def test_commands_that_read_any_path_accept_a_text_file(files):
    assert load(["book.txt"], INSPECT).config.paths == ["book.txt"]

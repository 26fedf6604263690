import shlex
from dataclasses import dataclass

import pytest

from toolkit.cli.command import execute
from toolkit.cli.generate import COMMAND as GENERATE
from toolkit.cli.predict import COMMAND as PREDICT
from toolkit.cli.validate import COMMAND as VALIDATE
from toolkit.common.errors import ToolkitError
from toolkit.config.command import Command, CommandGroup, identify_path
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.commands.train import TRAIN
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
        ("book.txt texts/a.txt", "book.txt is a text file", "--trainpref book.txt,texts/a.txt"),
        ("'my book.txt'", "my book.txt is a text file", "--trainpref 'my book.txt'"),
        ("rows.jsonl", "rows.jsonl is a .jsonl file", "--trainpref rows.jsonl --text-field FIELD"),
        ("train.json", "train.json is a .json file", "--trainpref train.json --format squad"),
        ("ud", "ud is a folder of .conllu files", "--trainpref ud --format conllu"),
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
        (TRAIN, "model", "a model of Transformers, not a data folder. Run toolkit-convert import"),
        (VALIDATE, "run/checkpoint_best", "is a checkpoint, not a data folder. Write --path run/"),
        (PREDICT, "book.txt", "unexpected argument 'book.txt'. Write --input book.txt."),
        (PREDICT, "run", "unexpected argument 'run'. Write --path run."),
        (PREPROCESS, "book.txt", "unexpected argument 'book.txt'. Write --trainpref book.txt."),
        (GENERATE.commands["translate"], "book.txt", "Write --input book.txt."),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_misplaced_path_names_the_option_that_takes_it(files, command, words, expected):
    with pytest.raises(ToolkitError) as error:
        load(shlex.split(words), command)
    assert expected in str(error.value)


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

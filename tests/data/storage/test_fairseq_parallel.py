"""fairseq's parallel folders, written from the description of the format."""

import json

import numpy as np
import pytest

from tests.helpers.data_folders import opening_error
from tests.helpers.fairseq_files import write_items, write_pairs
from toolkit.cli import generate, inspect, train, validate
from toolkit.common.errors import ToolkitError
from toolkit.config.sections import DataConfig
from toolkit.data.formats.parallel import ParallelSplit
from toolkit.data.storage.data_folder import Corpora, DataFolder
from toolkit.data.tokenizers.tokenizer import ParallelTokenizer

GERMAN = ["der", "Hund", "die", "Katze", "schläft"]
ENGLISH = ["the", "dog", "cat", "sleeps"]
PAIRS = [("der Hund schläft", "the dog sleeps"), ("", "the"), ("die Katze", "the cat"), ("der", "")]


def random_pairs(count, seed=0):
    draw = np.random.default_rng(seed)
    sides = [
        [" ".join(draw.choice(words, size=draw.integers(0, 7))) for _ in range(count)]
        for words in (GERMAN, ENGLISH)
    ]
    return list(zip(*sides, strict=True))


@pytest.fixture
def folder(tmp_path):
    return write_pairs(tmp_path / "bin", GERMAN, ENGLISH, {"train": PAIRS, "valid": PAIRS[:1]})


def test_parallel_folder_opens_with_both_vocabularies(folder):
    data = DataFolder.open(folder)
    assert (data.kind, data.splits) == ("parallel", ["train", "valid"])
    tokenizer = data.tokenizer
    assert isinstance(tokenizer, ParallelTokenizer) and not tokenizer.joined
    assert tokenizer.languages == "de-en" and tokenizer.sizes == {"tokens": 10, "targets": 9}


def test_pairs_with_an_empty_side_are_left_out_on_both_sides(folder):
    split = ParallelSplit(DataFolder.open(folder), "train")
    assert split.references(np.arange(2)) == ["the dog sleeps", "the cat"]
    source = split.source.take(np.array([1]), split.source.lengths[1:2])
    assert split.tokenizer.decode(source.ids.tolist()) == "die Katze"
    assert len(split) == 2


def test_equal_dictionaries_are_a_joined_vocabulary(tmp_path):
    words = [*GERMAN, *ENGLISH]
    tokenizer = DataFolder.open(write_pairs(tmp_path / "bin", words, words, {"train": PAIRS}))
    assert tokenizer.tokenizer.joined


@pytest.fixture
def two_pairs(folder):
    """The folder with a second pair, French to English."""
    pairs = {"train": [("le chien", "the dog")], "test": [("chat", "cat")]}
    return write_pairs(folder, ["le", "chien", "chat"], ENGLISH, pairs, pair="fr-en")


def first_pair(data, split="train"):
    pairs = ParallelSplit(data, split)
    source = pairs.source.take(np.array([0]), pairs.source.lengths[:1])
    return pairs.tokenizer.decode(source.ids.tolist()), pairs.references(np.arange(1))[0]


def test_languages_choose_one_of_several_pairs(two_pairs):
    french = Corpora.open(str(two_pairs), languages=("fr", "en")).all
    assert (french.tokenizer.languages, french.splits) == ("fr-en", ["train", "test"])
    assert first_pair(french) == ("le chien", "the dog")
    german = Corpora.open(str(two_pairs), languages=("de", "en")).all
    assert (german.splits, first_pair(german)[1]) == (["train", "valid"], "the dog sleeps")


def test_languages_choose_the_direction(folder):
    forward, back = (Corpora.open(str(folder), languages=it) for it in (("de", "en"), ("en", "de")))
    assert back.all.tokenizer.languages == "en-de"
    assert first_pair(back.all) == ("the dog sleeps", "der Hund schläft")
    assert first_pair(forward.all) == ("der Hund schläft", "the dog sleeps")
    assert (
        forward.all.fingerprint == Corpora.open(str(folder)).all.fingerprint != back.all.fingerprint
    )


def test_several_pairs_without_a_choice_are_listed(two_pairs):
    expected = "holds several language pairs: de-en, fr-en. Choose one with --source-lang and"
    assert expected in opening_error(two_pairs)


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (("de", "fr"), "--source-lang de and --target-lang fr need data in these languages, but"),
        (("de", ""), "^--source-lang requires --target-lang.$"),
        (("", "en"), "^--target-lang requires --source-lang.$"),
    ],
)
def test_languages_that_the_data_lacks_are_rejected(folder, languages, message):
    with pytest.raises(ToolkitError, match=message):
        config = DataConfig(dirs=[str(folder)], source_lang=languages[0], target_lang=languages[1])
        Corpora.of_run(config)


def test_sides_of_unequal_length_are_rejected(folder):
    write_items(folder / "train.de-en.en", [[4, 2]])
    assert "must list equally many sentences, but list 4 and 1" in opening_error(folder)


def train_words(folder, run):
    sizes = ["--arch.encoder-layers", "1", "--arch.decoder-layers", "1", "--arch.width", "16"]
    sizes += ["--arch.heads", "2", "--arch.feed-forward-width", "16"]
    words = [folder, "--arch", "transformer_tiny", *sizes, "--task", "translation"]
    return [*words, "--save-dir", run, "--num-workers", "0", "--max-update", "2"]


@pytest.mark.slow
def test_commands_train_validate_generate_and_inspect_without_conversion(tmp_path, capsys):
    pairs = random_pairs(80)
    splits = {"train": pairs, "valid": pairs[:9], "test": pairs[:3]}
    folder = str(write_pairs(tmp_path / "bin", GERMAN, ENGLISH, splits))
    run = str(tmp_path / "run")
    assert train.main(train_words(folder, run)) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["valid"]["valid"]["examples"] == sum(bool(a and b) for a, b in pairs[:9])
    assert validate.main([folder, "--path", run, "--num-workers", "0"]) == 0
    assert inspect.main([folder, "--verify", "--examples", "1"]) == 0
    assert "all offsets and ids are valid" in capsys.readouterr().out
    words = ["--path", run, "--dirs", folder, "--gen-subset", "test"]
    assert generate.main([*words, "--beam", "1", "--max-len-b", "3"]) == 0

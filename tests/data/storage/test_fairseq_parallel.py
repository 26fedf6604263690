"""fairseq's parallel folders, written from the description of the format."""

import json

import numpy as np
import pytest

from tests.helpers.data_folders import opening_error
from tests.helpers.fairseq_files import write_folder, write_items, write_pairs
from tests.helpers.preprocessing import preprocess_config
from toolkit.cli import generate, inspect, train, validate
from toolkit.data.formats.parallel.split import ParallelSplit
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.parallel import ParallelTokenizer
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.translation.task import Translation, TranslationConfig

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


def test_source_is_the_first_language_of_the_file_names(tmp_path):
    folder = write_pairs(tmp_path / "bin", ENGLISH, GERMAN, {"train": PAIRS}, pair="en-de")
    assert DataFolder.open(folder).tokenizer.languages == "en-de"


def test_languages_may_contain_hyphens(tmp_path):
    for language, words in (("zh-Hans", GERMAN), ("en", ENGLISH)):
        name = f"train.zh-Hans-en.{language}"
        write_folder(tmp_path / "bin", words, {name: ["der the"]}, language=language)
    tokenizer = DataFolder.open(tmp_path / "bin").tokenizer
    assert (tokenizer.source_lang, tokenizer.target_lang) == ("zh-Hans", "en")


def test_folder_of_only_source_with_a_language_is_text(tmp_path):
    folder = write_folder(
        tmp_path / "bin", ENGLISH, {"train.en-None.en": ["the dog"]}, language="en"
    )
    data = DataFolder.open(folder)
    assert data.kind == "text" and data.split("train").items == 1
    assert data.tokenizer.encode("the cat") == [4, 6]


def test_fingerprint_covers_both_sides(folder, tmp_path):
    swapped = [(source, "the cat") for source, _ in PAIRS]
    other = write_pairs(tmp_path / "o", GERMAN, ENGLISH, {"train": swapped, "valid": PAIRS[:1]})
    assert DataFolder.open(folder).fingerprint != DataFolder.open(other).fingerprint


def test_several_language_pairs_are_rejected(folder):
    write_folder(folder, ENGLISH, {"train.de-fr.fr": ["the"]}, language="fr")
    assert "must hold text in one language, or both sides of one language pair" in opening_error(
        folder
    )


def test_one_side_alone_is_rejected(folder):
    for name in ("train.de-en.en.idx", "valid.de-en.en.idx"):
        (folder / name).unlink()
    assert "or both sides of one language pair" in opening_error(folder)


def test_a_missing_dictionary_is_named(folder):
    (folder / "dict.en.txt").unlink()
    assert "must hold fairseq's dict.en.txt next to its .idx files" in opening_error(folder)


def test_sides_of_unequal_length_are_rejected(folder):
    write_items(folder / "train.de-en.en", [[4, 2]])
    assert "must list equally many sentences, but list 4 and 1" in opening_error(folder)


def test_both_formats_of_a_parallel_text_give_the_same_batches(tmp_path):
    pairs = random_pairs(200)
    theirs = write_pairs(tmp_path / "theirs", GERMAN, ENGLISH, {"train": pairs})
    for number, language in enumerate(("de", "en")):
        lines = "".join(f"{pair[number]}\n" for pair in pairs)
        (tmp_path / f"text.{language}").write_text(lines, encoding="utf-8")
    preprocess(
        preprocess_config(
            trainpref=str(tmp_path / "text"),
            source_lang="de",
            target_lang="en",
            srcdict=str(theirs / "dict.de.txt"),
            tgtdict=str(theirs / "dict.en.txt"),
            tokenizer="words",
            destdir=str(tmp_path / "ours"),
            workers=1,
        )
    )
    batches = []
    for folder in map(DataFolder.open, (theirs, tmp_path / "ours")):
        source = SplitSource(folder, "train", seed=1, training=True)
        examples = Translation.examples(TranslationConfig(), source)
        batch = examples.collate(np.arange(len(examples.lengths)), 1)
        batches.append([batch.inputs.tokens.tolist(), batch.previous.tolist()])
    assert batches[0] == batches[1]


def test_commands_train_validate_generate_and_inspect_without_conversion(tmp_path, capsys):
    pairs = random_pairs(80)
    splits = {"train": pairs, "valid": pairs[:9], "test": pairs[:3]}
    folder = str(write_pairs(tmp_path / "bin", GERMAN, ENGLISH, splits))
    run = str(tmp_path / "run")
    sizes = ["--arch.encoder-layers", "1", "--arch.decoder-layers", "1", "--arch.width", "16"]
    sizes += ["--arch.heads", "2", "--arch.feed-forward-width", "16"]
    words = [folder, "--arch", "transformer_tiny", *sizes, "--task", "translation"]
    words += ["--save-dir", run, "--num-workers", "0", "--max-update", "2"]
    assert train.main(words) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["valid"]["valid"]["examples"] == sum(bool(a and b) for a, b in pairs[:9])
    assert validate.main([folder, "--path", run, "--num-workers", "0"]) == 0
    assert inspect.main([folder, "--verify", "--examples", "1"]) == 0
    assert "all offsets and ids are valid" in capsys.readouterr().out
    words = ["--path", run, "--dirs", folder, "--gen-subset", "test"]
    assert generate.main([*words, "--beam", "1", "--max-len-b", "3"]) == 0

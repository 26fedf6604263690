from __future__ import annotations

from functools import partial

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.split import ClassificationTokenizer, Labels
from toolkit.data.preprocess import preprocess
from toolkit.data.preprocessing.choose_tokenizer import (
    TrainingText,
    choose_tokenizer_for_texts,
    sample_items,
    sample_text,
)
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.text_files import FileChunk
from toolkit.data.tokenizers.offsets import split_long_words

TEXT = "The old house\nthe river and the House\n"


@pytest.fixture
def folder_of(tmp_path, text_file):
    def make(name="data", **options):
        config = {"trainpref": str(text_file(TEXT)), "workers": 1, **options}
        preprocess(preprocess_config(destdir=str(tmp_path / name), **config))
        return DataFolder.open(tmp_path / name)

    return make


def test_words_are_counted_and_the_most_frequent_kept(folder_of, capsys):
    folder = folder_of(tokenizer="words", lowercase=True, min_count=2)
    assert folder.vocabulary.symbols[4:] == ["the", "house", "<mask>"]
    output = capsys.readouterr().err
    assert "counted 8 words, 5 different ones" in output and "the 2 kept are 62.50%" in output


def test_dictionary_of_fairseq_is_used(folder_of, text_file):
    path = text_file("the 3\nHouse 1\n", "dict.txt")
    folder = folder_of(srcdict=str(path))
    assert folder.vocabulary.symbols[4:] == ["the", "House", "<mask>"]
    assert folder.tokenizer.encode("the old House") == [4, 3, 5]


def test_wordpiece_is_learned(folder_of, capsys):
    folder = folder_of(tokenizer="wordpiece", lowercase=True, vocab_size=40)
    assert folder.tokenizer.decode(folder.tokenizer.encode("the river house")) == "the river house"
    assert "WordPiece pieces in" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["bpe", "bytes", "characters"])
def test_tokenizer_json_is_learned_loses_nothing_and_is_accepted_as_it_is(folder_of, kind):
    first = folder_of(tokenizer=kind, vocab_size=300)
    line = "The old  house" + "\tand the [MASK] naïve 我爱 😀" * (kind != "characters")
    encode, decode = first.tokenizer.encode, first.tokenizer.decode
    assert decode(encode(line)) == line and encode("old house") == encode("old") + encode("house")
    parsed = first.tokenizer.encode_parsing_special("old [MASK]")  # a mask takes the space along
    space = encode("old ")[len(encode("old")) :] if kind == "characters" else []
    assert parsed == [*encode("old"), *space, first.vocabulary.mask]
    (bare := first.path.parent / "bare").mkdir()
    (bare / "tokenizer.json").write_bytes((first.path / "tokenizer.json").read_bytes())
    for number, path in enumerate([bare, bare / "tokenizer.json"]):
        again = folder_of(f"again{number}", tokenizer_from=str(path))
        assert again.fingerprint == first.fingerprint
    (bare / "tokenizer_config.json").write_text('{"pad_token": "[SEP]"}')  # as of GPT-like models
    assert folder_of("padded", tokenizer_from=str(bare)).vocabulary.pad == first.vocabulary.sep


def test_missing_special_tokens_are_named(folder_of):
    path = folder_of(tokenizer="bytes").path / "tokenizer.json"
    (other := path.parent.parent / "other.json").write_text(
        path.read_text("utf-8").replace("[PAD]", "[P]").replace("[MASK]", "[M]"), "utf-8"
    )
    with pytest.raises(ToolkitError, match=r"other.json must have .* lacks pad_token, mask_t"):
        folder_of("again", tokenizer_from=str(other))


def test_vocabulary_without_mask_is_rejected(folder_of, tmp_path):
    (tmp_path / "tagged.txt").write_text("the DET\nhouse NOUN\n\n")
    tagged = folder_of("tagged", format="columns", trainpref=str(tmp_path / "tagged.txt"))
    with pytest.raises(ToolkitError, match=r"must have \[CLS\], \[SEP\] and \[MASK\], but that of"):
        folder_of(tokenizer_from=str(tagged.path))


@pytest.mark.parametrize("tokenizer", ["words", "wordpiece"])
def test_tokenizer_from_keeps_all_settings(folder_of, tokenizer):
    first = folder_of(tokenizer=tokenizer, lowercase=True, vocab_size=40)
    again = folder_of("again", tokenizer_from=str(first.path))
    assert again.fingerprint == first.fingerprint


def test_tokenizer_from_a_save_folder_is_that_of_its_best_checkpoint(folder_of, tmp_path):
    (tmp_path / "run").mkdir()
    for link, text in (("checkpoint_last", "other\n"), ("checkpoint_best", TEXT)):
        (tmp_path / f"{link}.txt").write_text(text)
        found = folder_of(link, tokenizer="words", trainpref=str(tmp_path / f"{link}.txt"))
        (tmp_path / "run" / link).symlink_to(found.path)
    assert folder_of("again", tokenizer_from=str(tmp_path / "run")).fingerprint == found.fingerprint


@pytest.mark.parametrize("listing", ["meta.json", "manifest.json"])
def test_damaged_files_of_a_listed_tokenizer_are_refused(folder_of, listing):
    folder = folder_of(tokenizer="words").path
    (folder / "meta.json").rename(folder / listing)
    path = folder / "dict.txt"
    path.write_bytes(path.read_bytes().replace(b"river", b"rider"))
    with pytest.raises(ToolkitError, match=f"dict.txt must match its digest in {listing}"):
        folder_of("again", tokenizer_from=str(folder))


@pytest.fixture
def choose(tmp_path):
    """The tokenizer for texts; nothing else is left in the folder."""

    def run(texts, **options):
        options = {"trainpref": "x", "tokenizer": "words", **options}
        (folder := tmp_path / "folder").mkdir()
        with WorkerPool(1) as pool:
            found = choose_tokenizer_for_texts(preprocess_config(**options), texts, folder, pool)
        assert not list(folder.iterdir())
        return found

    return run


def test_given_tokenizer_loses_its_labels(choose, tokenizer, tmp_path):
    labels = Labels(task="x", classes=["a", "b"], metrics=["accuracy"], pairs=False, bounds=[])
    ClassificationTokenizer(tokenizer, labels).save(tmp_path)
    found = choose([], tokenizer=None, tokenizer_from=str(tmp_path))
    assert type(found) is type(tokenizer) and found.fingerprint == tokenizer.fingerprint


def test_long_texts_are_learned_from(choose):
    found = choose(["a\0 " * 9, "b"], max_line_bytes=9)
    assert found.vocabulary.symbols[4:6] == ["a\ufffd", "b"]


LIMIT = 500_000


def text_of(*paths):
    """The files as parts of a training text."""
    parts = [[FileChunk(path, 0, path.stat().st_size, True)] for path in paths]
    return TrainingText(parts, "lines", LIMIT)


@pytest.fixture
def numbers(text_file):
    return text_of(text_file("".join(f"The {n}\n" for n in range(100))))


@pytest.fixture
def rivers(text_file):
    return text_of(*(text_file("the river\n" * n, f"{n}.txt") for n in (1, 9, 4)))


def test_a_fraction_of_the_items_is_spread_evenly(numbers):
    sample = partial(sample_items, text=numbers, fraction=0.1)
    assert sample(numbers.parts[0]) == [f"The {n}" for n in range(9, 100, 10)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sample_has_items_even_if_every_part_is_too_short_for_one(workers, rivers):
    config = preprocess_config(trainpref="x", sentencepiece_megabytes=1e-6)  # a byte of 140
    with WorkerPool(workers) as pool:
        assert 0 < len(sample_text(rivers, config, pool)) < 4


def test_long_word_is_split_and_each_part_appears_once(text_file):
    text = text_of(text_file("a " + "x" * 1000 + " b\n" + "yz" * 200 + "\n"))
    found = [*map(split_long_words, sample_items(text.parts[0], text, 1.0))]
    assert found == [f"a {'x' * 256} {'x' * (1000 - 3 * 256)} b", f"{'yz' * 128} {'yz' * 72}"]

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.preprocess import preprocess
from toolkit.data.tokenizers.tokenizer import (
    ParallelTokenizer,
    Tokenizer,
    WrappedTokenizer,
    restore_inner,
)
from toolkit.data.tokenizers.vocabulary import (
    WORD_REST,
    WORD_START,
    Vocabulary,
    append_special,
    read_symbols,
    write_symbols,
)
from toolkit.data.tokenizers.word_level import WordLevelTokenizer


def set_kind(folder, **changed):
    path = folder / "tokenizer_config.json"
    settings = {**json.loads(path.read_text()), **changed}
    path.write_text(json.dumps({k: v for k, v in settings.items() if v is not None}))


@pytest.mark.parametrize("missing", ["dict.txt", "tokenizer_config.json"])
def test_missing_tokenizer_files_are_named(tmp_path, missing):
    WordLevelTokenizer.from_counts({"a": 1}, size=1).save(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ToolkitError, match=rf"{missing}.*No such|No such.*{missing}"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("special", [None, {}, {"pad": 1}, [1], {"pad": "x"}])
def test_special_tokens_are_required(tmp_path, special):
    WordLevelTokenizer.from_counts({"a": 1}, size=1).save(tmp_path)
    set_kind(tmp_path, special=special)
    with pytest.raises(ToolkitError, match=r"must hold the files of a tokenizer"):
        Tokenizer.load(tmp_path)


def test_tokenizer_of_a_plugin_is_found_by_its_kind(tokenizer, tmp_path):
    class Graded(WrappedTokenizer):
        kind = "graded"

        @property
        def sizes(self):
            return {**super().sizes, "grades": 6}

        @classmethod
        def _restore(cls, folder, settings, symbols):
            return cls(restore_inner(folder, settings, symbols))

    Graded(tokenizer).save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert isinstance(again, Graded) and again.sizes["grades"] == 6
    assert again.encode("the river") == tokenizer.encode("the river")


GERMAN, ENGLISH = (WordLevelTokenizer.from_counts({word: 1}, size=9) for word in ("Hund", "dog"))


def test_opposite_direction_of_a_joined_vocabulary_is_a_difference():
    def pair(source, target):
        return ParallelTokenizer(GERMAN, None, source_lang=source, target_lang=target)

    difference = "one translates de-en, the other en-de"
    assert pair("de", "en").describe_difference(pair("en", "de")) == difference
    assert pair("de", "en").describe_difference(pair("de", "en")) == ""
    assert pair("de", "en").describe_difference(pair("en", "fr")) == ""
    assert pair("de", "de").describe_difference(pair("de", "de")) == ""
    assert pair("de", "en").describe_difference(GERMAN) == "their vocabularies differ"


NUMBERS = ["one", "two", "three", "four", "fünf", "Six"]
LONG = "long" * 90
TEXTS = [f"After {a} comes  {b}, {LONG} {a}." for a, b in pairwise(NUMBERS)]
TRAINED = pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece", "words"])


@TRAINED
@pytest.mark.parametrize("lowercase", [False, True])
def test_training_on_texts_equals_preprocessing_of_their_lines(kind, lowercase, tmp_path):
    lines = [*TEXTS, "  twice ", "", "twice\there"]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = preprocess_config(
        trainpref=str(tmp_path / "text.txt"),
        destdir=str(tmp_path / "data"),
        tokenizer=kind,
        vocab_size=60,
        lowercase=lowercase,
        workers=1,
    )
    preprocess(config)
    trained = Tokenizer.train(lines, kind=kind, vocabulary_size=60, lowercase=lowercase)
    stored = Tokenizer.load(tmp_path / "data")
    assert trained.fingerprint == stored.fingerprint and trained.lowercase == lowercase
    assert trained.encode("one Six sëven") == stored.encode("one Six sëven")


WRONG = {
    "texts must be a list, but is a single text. Put it in brackets.": ("one two", {}),
    "texts must be strings, but text 1 is of type int.": (["one", 2], {}),
    "texts must have at least one that is not blank, but have none.": (["", " \n"], {}),
    "texts must be a list with at least one text, but is empty.": ([], {}),
    "kind must be one of sentencepiece, wordpiece, words, bpe, bytes, characters, but is 'x'.": (
        TEXTS,
        {"kind": "x"},
    ),
    "vocabulary_size must be at least 4, but is 3.": (TEXTS, {"vocabulary_size": 3}),
}


@pytest.mark.parametrize(("message", "given"), WRONG.items())
def test_training_rejects_what_is_not_a_list_of_texts(message, given):
    texts, options = given
    with pytest.raises(ToolkitError) as raised:
        Tokenizer.train((text for text in texts) if isinstance(texts, list) else texts, **options)
    assert str(raised.value) == message


def test_pieces_named_like_special_tokens_are_rejected():
    with pytest.raises(ToolkitError, match=r"must not contain \[MASK\]"):
        append_special(["<unk>", "[MASK]"], unk=0)


def test_the_column_type_is_the_narrowest_that_holds_every_id(vocabulary):
    assert vocabulary.dtype == "<u2"
    assert append_special([str(i) for i in range(70000)], unk=0).dtype == "<i4"


@pytest.mark.parametrize("symbol", ["a", "\n", "\\n", "\\", "\r\n", "\\\\n", "\u2028", "", " "])
def test_any_symbol_survives_the_symbols_file(symbol):
    assert read_symbols(write_symbols(["x", symbol, "y"])) == ["x", symbol, "y"]


@pytest.mark.parametrize(
    ("mark", "symbols", "displayed"),
    [
        (WORD_START, ["▁cat", "s", ".", "▁"], ["cat", "…s", ".", "(space)"]),
        (WORD_REST, ["cat", "##s", "."], ["cat", "…s", "."]),
        ("", ["cat", "##s", "."], ["cat", "##s", "."]),
    ],
)
def test_display_symbol_drops_the_word_mark_and_marks_continuations(mark, symbols, displayed):
    vocabulary = Vocabulary(symbols, pad=0, cls=0, sep=0, mask=0, unk=0, mark=mark)
    assert [vocabulary.display_symbol(symbol) for symbol in symbols] == displayed

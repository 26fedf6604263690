"""Tokenizers trained on texts in memory."""

from itertools import pairwise

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit import ToolkitError
from toolkit.data.preprocess import preprocess
from toolkit.data.tokenizers.tokenizer import Tokenizer

NUMBERS = ["one", "two", "three", "four", "fünf", "Six"]
LONG = "long" * 90
TEXTS = [f"After {a} comes  {b}, {LONG} {a}." for a, b in pairwise(NUMBERS)]
KINDS = pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece", "words"])


@KINDS
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


@KINDS
def test_trained_tokenizer_is_saved_and_loaded(kind, tmp_path):
    trained = Tokenizer.train(TEXTS * 3, kind=kind, vocabulary_size=70)
    trained.save(tmp_path / "new" / "folder")
    loaded = Tokenizer.load(tmp_path / "new" / "folder")
    assert loaded.fingerprint == trained.fingerprint
    ids = loaded.encode("After one comes two")
    assert trained.decode(ids) == "After one comes two"


WRONG = {
    "texts must be a list, but is a single text. Put it in brackets.": ("one two", {}),
    "texts must be strings, but text 1 is of type int.": (["one", 2], {}),
    "texts must have at least one that is not blank, but have none.": (["", " \n"], {}),
    "texts must be a list with at least one text, but is empty.": ([], {}),
    "kind must be one of sentencepiece, wordpiece, words, but is 'bpe'.": (TEXTS, {"kind": "bpe"}),
    "vocabulary_size must be at least 4, but is 3.": (TEXTS, {"vocabulary_size": 3}),
}


@pytest.mark.parametrize(("message", "given"), WRONG.items())
def test_training_rejects_what_is_not_a_list_of_texts(message, given):
    texts, options = given
    with pytest.raises(ToolkitError) as raised:
        Tokenizer.train((text for text in texts) if isinstance(texts, list) else texts, **options)
    assert str(raised.value) == message

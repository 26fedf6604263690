from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.parallel import ParallelTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

GERMAN, ENGLISH = (WordLevelTokenizer.from_counts({word: 1}, size=9) for word in ("Hund", "dog"))


@pytest.fixture
def tokenizer():
    return ParallelTokenizer(GERMAN, ENGLISH, source_lang="de", target_lang="en")


def test_parallel_tokenizer_encodes_source_and_target(tokenizer):
    assert tokenizer.decode(tokenizer.encode("Hund")) == "Hund"
    assert tokenizer.target.decode(tokenizer.target.encode("dog")) == "dog"
    assert tokenizer.decode(tokenizer.encode("dog")) == "<unk>" and tokenizer.sizes["targets"] == 6


def test_saved_parallel_tokenizer_loads_equal(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert isinstance(again, ParallelTokenizer) and again.fingerprint == tokenizer.fingerprint
    assert (again.languages, again.joined) == ("de-en", False)
    assert set(tokenizer.files) == {
        "dict.txt",
        "tokenizer_config.json",
        "target/dict.txt",
        "target/tokenizer_config.json",
    }


def test_opposite_direction_of_a_joined_vocabulary_is_a_difference():
    def pair(source, target):
        return ParallelTokenizer(GERMAN, None, source_lang=source, target_lang=target)

    difference = "one translates de-en, the other en-de"
    assert pair("de", "en").describe_difference(pair("en", "de")) == difference
    assert pair("de", "en").describe_difference(pair("de", "en")) == ""
    assert pair("de", "en").describe_difference(pair("en", "fr")) == ""
    assert pair("de", "de").describe_difference(pair("de", "de")) == ""
    assert pair("de", "en").describe_difference(GERMAN) == "their vocabularies differ"


def test_fingerprint_includes_the_target_vocabulary(tokenizer):
    joined = ParallelTokenizer(GERMAN, None, source_lang="de", target_lang="en")
    assert joined.target is joined.inner and joined.fingerprint != tokenizer.fingerprint


def test_target_that_is_a_parallel_tokenizer_is_rejected(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    (tmp_path / "target" / "target").mkdir()
    ENGLISH.save(tmp_path / "target" / "target")
    (tmp_path / "target" / "tokenizer_config.json").write_text(
        (tmp_path / "tokenizer_config.json").read_text()
    )
    with pytest.raises(ToolkitError, match=r"target must hold a tokenizer of plain text"):
        Tokenizer.load(tmp_path)


def test_missing_target_file_is_named(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    (tmp_path / "target" / "dict.txt").unlink()
    with pytest.raises(ToolkitError, match=r"target must hold a readable dict.txt"):
        Tokenizer.load(tmp_path)

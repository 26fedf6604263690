from __future__ import annotations

import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import KINDS, Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.data.tokenizers.wrapped import ParallelTokenizer, WrappedTokenizer, restore_inner


def set_kind(folder, **changed):
    path = folder / "tokenizer_config.json"
    settings = {**json.loads(path.read_text()), **changed}
    path.write_text(json.dumps({k: v for k, v in settings.items() if v is not None}))


def test_unknown_kinds_are_answered_with_the_known_ones(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    set_kind(tmp_path, kind="bytes")
    with pytest.raises(ToolkitError, match=f"must be one of {', '.join(KINDS)}, but is 'bytes'"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("missing", ["dict.txt", "tokenizer_config.json"])
def test_missing_tokenizer_files_are_named(tmp_path, missing):
    WordLevelTokenizer.from_counts({"a": 1}, size=1).save(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ToolkitError, match=rf"{missing}.*No such file"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("special", [None, {}, {"pad": 1}, [1], {"pad": "x"}])
def test_special_tokens_are_required(tmp_path, special):
    WordLevelTokenizer.from_counts({"a": 1}, size=1).save(tmp_path)
    set_kind(tmp_path, special=special)
    with pytest.raises(ToolkitError, match=r"must hold a readable dict.txt, tokenizer_config.json"):
        Tokenizer.load(tmp_path)


def test_tokenizer_writes_the_files_that_it_names(tokenizer, tmp_path):
    for number, kind in enumerate([tokenizer, WordLevelTokenizer.from_counts({"a": 1}, size=1)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        kind.save(folder)
        assert sorted(path.name for path in folder.iterdir()) == sorted(kind.files)


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


@pytest.fixture
def parallel():
    return ParallelTokenizer(GERMAN, ENGLISH, source_lang="de", target_lang="en")


def test_parallel_tokenizer_encodes_source_and_target(parallel):
    assert parallel.decode(parallel.encode("Hund")) == "Hund"
    assert parallel.target.decode(parallel.target.encode("dog")) == "dog"
    assert parallel.decode(parallel.encode("dog")) == "<unk>" and parallel.sizes["targets"] == 6


def test_saved_parallel_tokenizer_loads_equal(parallel, tmp_path):
    parallel.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert isinstance(again, ParallelTokenizer) and again.fingerprint == parallel.fingerprint
    assert (again.languages, again.joined) == ("de-en", False)
    assert set(parallel.files) == {
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


def test_fingerprint_includes_the_target_vocabulary(parallel):
    joined = ParallelTokenizer(GERMAN, None, source_lang="de", target_lang="en")
    assert joined.target is joined.inner and joined.fingerprint != parallel.fingerprint


def test_target_that_is_a_parallel_tokenizer_is_rejected(parallel, tmp_path):
    parallel.save(tmp_path)
    (tmp_path / "target" / "target").mkdir()
    ENGLISH.save(tmp_path / "target" / "target")
    (tmp_path / "target" / "tokenizer_config.json").write_text(
        (tmp_path / "tokenizer_config.json").read_text()
    )
    with pytest.raises(ToolkitError, match=r"target must hold a tokenizer of plain text"):
        Tokenizer.load(tmp_path)


def test_missing_target_file_is_named(parallel, tmp_path):
    parallel.save(tmp_path)
    (tmp_path / "target" / "dict.txt").unlink()
    with pytest.raises(ToolkitError, match=r"target must hold a readable dict.txt"):
        Tokenizer.load(tmp_path)

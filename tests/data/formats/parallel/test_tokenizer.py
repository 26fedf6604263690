from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.parallel.tokenizer import ParallelCodec
from toolkit.data.tokenizers.tokenizer import Codec
from toolkit.data.tokenizers.word_level import Dictionary

GERMAN, ENGLISH = (Dictionary.build({word: 1}, size=9) for word in ("Hund", "dog"))


@pytest.fixture
def codec():
    return ParallelCodec(GERMAN, ENGLISH, source_lang="de", target_lang="en")


def test_it_reads_the_source_and_has_the_target_beside_it(codec):
    assert codec.decode(codec.encode("Hund")) == "Hund"
    assert codec.target.decode(codec.target.encode("dog")) == "dog"
    assert codec.decode(codec.encode("dog")) == "<unk>" and codec.counts["targets"] == 6


def test_it_comes_back_from_a_folder(codec, tmp_path):
    codec.save(tmp_path)
    again = Codec.load(tmp_path)
    assert isinstance(again, ParallelCodec) and again.fingerprint == codec.fingerprint
    assert (again.languages, again.joined) == ("de-en", False)
    assert set(codec.files) == {"dict.txt", "codec.json", "target/dict.txt", "target/codec.json"}


def test_it_is_known_from_its_reverse_though_the_vocabulary_is_one():
    def pair(source, target):
        return ParallelCodec(GERMAN, None, source_lang=source, target_lang=target)

    assert pair("de", "en").reverses(pair("en", "de")) and pair("de", "en").reverse == "en-de"
    assert not pair("de", "en").reverses(pair("de", "en"))
    assert not pair("de", "en").reverses(pair("en", "fr"))
    assert not pair("de", "de").reverses(pair("de", "de")) and not pair("de", "en").reverses(GERMAN)


def test_other_words_to_write_are_another_fingerprint(codec):
    joined = ParallelCodec(GERMAN, None, source_lang="de", target_lang="en")
    assert joined.target is joined.inner and joined.fingerprint != codec.fingerprint


def test_a_target_that_is_one_of_two_languages_itself_is_refused(codec, tmp_path):
    codec.save(tmp_path)
    (tmp_path / "target" / "target").mkdir()
    ENGLISH.save(tmp_path / "target" / "target")
    (tmp_path / "target" / "codec.json").write_text((tmp_path / "codec.json").read_text())
    with pytest.raises(ToolkitError, match=r"target must hold a codec of text alone"):
        Codec.load(tmp_path)


def test_a_target_that_is_gone_is_told(codec, tmp_path):
    codec.save(tmp_path)
    (tmp_path / "target" / "dict.txt").unlink()
    with pytest.raises(ToolkitError, match=r"target must hold a readable dict.txt"):
        Codec.load(tmp_path)

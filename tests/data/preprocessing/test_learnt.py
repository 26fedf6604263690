from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.classification.tokenizer import LabelledCodec, Labels
from toolkit.data.preprocessing.choose_tokenizer import codec_of_texts, in_one_line


def config(**options):
    return PreprocessConfig(trainpref="x", tokenizer="words", **options)


def test_a_vocabulary_is_learnt_from_texts_of_several_lines(tmp_path):
    codec = codec_of_texts(config(), ["a b\nc", "a\u2028d"], tmp_path, None)
    assert codec.vocabulary.symbols[4:8] == ["a", "b", "c", "d"] and not list(tmp_path.iterdir())


def test_a_given_codec_comes_without_what_it_keeps_beside(tmp_path, codec):
    labels = Labels(task="x", classes=["a", "b"], figures=["accuracy"], pairs=False, bounds=[])
    assert codec_of_texts(config(), [], tmp_path, LabelledCodec(codec, labels)) is codec


def test_what_a_reader_has_let_through_is_learnt_from_however_long(tmp_path):
    codec = codec_of_texts(config(max_line_bytes=9), ["a\0 " * 9, "b"], tmp_path, None)
    assert codec.vocabulary.symbols[4:6] == ["a\ufffd", "b"]


def test_without_texts_nothing_can_be_learnt(tmp_path):
    with pytest.raises(ToolkitError, match="a vocabulary must be learnt from --trainpref"):
        codec_of_texts(config(), [], tmp_path, None)


def test_no_character_changes_its_place():
    text = "a\n\tb\u2028c\r\nd\ud800\0"
    assert in_one_line(text) == "a  b c  d\ufffd\ufffd" and len(in_one_line(text)) == len(text)

from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.classification.tokenizer import ClassificationTokenizer, Labels
from toolkit.data.preprocessing.choose_tokenizer import (
    choose_tokenizer_for_texts,
    replace_line_breaks,
)


def config(**options):
    return PreprocessConfig(trainpref="x", tokenizer="words", **options)


def test_a_vocabulary_is_learned_from_texts_of_several_lines(tmp_path):
    tokenizer = choose_tokenizer_for_texts(config(), ["a b\nc", "a\u2028d"], tmp_path, None)
    assert tokenizer.vocabulary.symbols[4:8] == ["a", "b", "c", "d"] and not list(
        tmp_path.iterdir()
    )


def test_a_given_tokenizer_comes_without_what_it_keeps_beside(tmp_path, tokenizer):
    labels = Labels(task="x", classes=["a", "b"], metrics=["accuracy"], pairs=False, bounds=[])
    assert (
        choose_tokenizer_for_texts(
            config(), [], tmp_path, ClassificationTokenizer(tokenizer, labels)
        )
        is tokenizer
    )


def test_what_a_reader_has_let_through_is_learned_from_however_long(tmp_path):
    tokenizer = choose_tokenizer_for_texts(
        config(max_line_bytes=9), ["a\0 " * 9, "b"], tmp_path, None
    )
    assert tokenizer.vocabulary.symbols[4:6] == ["a\ufffd", "b"]


def test_without_texts_nothing_can_be_learned(tmp_path):
    with pytest.raises(ToolkitError, match="a vocabulary must be learned from --trainpref"):
        choose_tokenizer_for_texts(config(), [], tmp_path, None)


def test_no_character_changes_its_place():
    text = "a\n\tb\u2028c\r\nd\ud800\0"
    assert replace_line_breaks(text) == "a  b c  d\ufffd\ufffd" and len(
        replace_line_breaks(text)
    ) == len(text)

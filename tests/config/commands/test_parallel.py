from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig


def config(**options):
    return PreprocessConfig(
        **{"trainpref": "x", "source_lang": "de", "target_lang": "en", **options}
    )


def test_two_languages_say_that_the_text_is_parallel():
    assert config().format == "parallel" and PreprocessConfig(trainpref="x").format == "text"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_lang": ""}, r"must both be given for parallel text, but target_lang is missing"),
        ({"target_lang": "de"}, r"must be two languages, but both are de"),
        ({"format": "glue"}, r"must come with parallel text, but the format is glue"),
        ({"overlength": "split", "max_item_tokens": 9}, r"must be error, skip or truncate"),
        (
            {"segment_by": "sentences"},
            r"segment_by must be given with --format text, but the format is par",
        ),
        ({"tgtdict": "d"}, r"tgtdict must come with tokenizer words, but that is sentencepiece"),
        (
            {"tgtdict": "d", "srcdict": "d", "joined_dictionary": True},
            r"tgtdict must be left out with joined_dictionary",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**options)


def test_other_text_has_one_vocabulary():
    with pytest.raises(ToolkitError, match=r"joined_dictionary must be given with --format para"):
        PreprocessConfig(trainpref="x", joined_dictionary=True)

import pytest

from toolkit.checkpoints.compatibility import refuse_unsuited
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.parallel.tokenizer import ParallelCodec
from toolkit.data.tokenizers.word_level import FIRST, Dictionary


def words(*known):
    return Dictionary.of([*FIRST, *known])


def pair(source, target):
    return ParallelCodec(words("cat"), None, source_lang=source, target_lang=target)


def test_data_of_other_words_are_refused_with_both_names():
    with pytest.raises(ToolkitError, match=r"of run, but that of data differs.*--codec-from run\."):
        refuse_unsuited(words("cat"), "data", words("dog"), "run")
    refuse_unsuited(words("cat"), "data", words("cat"), "run")


def test_data_in_the_other_direction_are_refused_though_the_vocabulary_is_one():
    message = "must be en-de as run is, but those of data are de-en.*--source-lang en and"
    with pytest.raises(ToolkitError, match=message):
        refuse_unsuited(pair("de", "en"), "data", pair("en", "de"), "run")


@pytest.mark.parametrize("languages", [("en", "de"), ("eng", "deu"), ("en", "fr")])
def test_languages_that_are_merely_called_otherwise_pass(languages):
    refuse_unsuited(pair(*languages), "data", pair("en", "de"), "run")
    refuse_unsuited(pair("en", "en"), "data", pair("en", "en"), "run")

import pytest

from toolkit.checkpoints.compatibility import check_data_matches_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.parallel.tokenizer import ParallelTokenizer
from toolkit.data.tokenizers.word_level import FAIRSEQ_SPECIAL, WordLevelTokenizer


def words(*known):
    return WordLevelTokenizer.from_symbols([*FAIRSEQ_SPECIAL, *known])


def pair(source, target):
    return ParallelTokenizer(words("cat"), None, source_lang=source, target_lang=target)


def test_data_of_other_words_are_refused_with_both_names():
    with pytest.raises(
        ToolkitError, match=r"of run, but that of data differs.*--tokenizer-from run\."
    ):
        check_data_matches_checkpoint(words("cat"), "data", words("dog"), "run")
    check_data_matches_checkpoint(words("cat"), "data", words("cat"), "run")


def test_data_in_the_other_direction_are_refused_though_the_vocabulary_is_one():
    message = "must be en-de as run is, but those of data are de-en.*--source-lang en and"
    with pytest.raises(ToolkitError, match=message):
        check_data_matches_checkpoint(pair("de", "en"), "data", pair("en", "de"), "run")


@pytest.mark.parametrize("languages", [("en", "de"), ("eng", "deu"), ("en", "fr")])
def test_languages_that_are_merely_called_otherwise_pass(languages):
    check_data_matches_checkpoint(pair(*languages), "data", pair("en", "de"), "run")
    check_data_matches_checkpoint(pair("en", "en"), "data", pair("en", "en"), "run")

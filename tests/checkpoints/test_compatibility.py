import pytest

from toolkit.checkpoints.load import check_data_matches_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.word_level import FAIRSEQ_SPECIAL, WordLevelTokenizer
from toolkit.data.tokenizers.wrapped import ParallelTokenizer


def words(*known):
    return WordLevelTokenizer.from_symbols([*FAIRSEQ_SPECIAL, *known])


def pair(source, target):
    return ParallelTokenizer(words("cat"), None, source_lang=source, target_lang=target)


def test_data_with_another_vocabulary_are_rejected_with_both_names():
    with pytest.raises(
        ToolkitError, match=r"of run, but that of data differs.*--tokenizer-from run\."
    ):
        check_data_matches_checkpoint(words("cat"), "data", words("dog"), "run")
    check_data_matches_checkpoint(words("cat"), "data", words("cat"), "run")


def test_data_in_the_other_direction_are_rejected_despite_a_joined_vocabulary():
    message = r"of run, but that of data differs: one translates de-en, the other en-de\."
    with pytest.raises(ToolkitError, match=message):
        check_data_matches_checkpoint(pair("de", "en"), "data", pair("en", "de"), "run")


def test_other_names_of_the_languages_are_accepted():
    check_data_matches_checkpoint(pair("eng", "deu"), "data", pair("en", "de"), "run")
    check_data_matches_checkpoint(pair("en", "en"), "data", pair("en", "en"), "run")

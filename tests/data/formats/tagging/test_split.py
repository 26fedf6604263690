import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.split import TaggedSplit


def test_unknown_and_ambiguous_words_are_marked(folder):
    split = TaggedSplit(folder(), "valid")  # I bark . the cat barks .
    assert split.oov.tolist() == [False, False, False, False, True, False, False]
    assert split.ambiguous.tolist() == [False, True, False, False, False, False, False]


def test_type_characters_end_with_those_of_padding(folder):
    split = TaggedSplit(folder(), "test")
    tokenizer = split.tokenizer
    assert (split.type_char_ids[:-1] == tokenizer.char_ids(split.words)).all()
    assert (split.type_char_ids[-1] == tokenizer.char_ids(["<PAD>"])).all()


def test_unknown_split_is_reported_with_the_known_ones(folder):
    with pytest.raises(ToolkitError, match=r"is called 'dev'. Known: train, valid, test"):
        TaggedSplit(folder(), "dev")

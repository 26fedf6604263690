import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.split import TaggedSplit


def test_unknown_and_ambiguous_words_are_marked_place_by_place(folder):
    split = TaggedSplit(folder(), "valid")  # I bark . the cat barks .
    assert split.oov.tolist() == [False, False, False, False, True, False, False]
    assert split.ambiguous.tolist() == [False, True, False, False, False, False, False]


def test_every_type_is_spelled_and_padding_last(folder):
    split = TaggedSplit(folder(), "test")
    tokenizer = split.tokenizer
    assert (split.type_char_ids[:-1] == tokenizer.char_ids(split.words)).all()
    assert (split.type_char_ids[-1] == tokenizer.char_ids(["<PAD>"])).all()


def test_an_unknown_split_is_told(folder):
    with pytest.raises(ToolkitError, match=r"is called 'dev'. Known: train, valid, test"):
        TaggedSplit(folder(), "dev")

from pathlib import Path

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.tokenizer import LabelTables, build_tables
from toolkit.data.formats.tagging.treebanks import TaggedFile, TaggedSentence


def sentence(text):
    words, tags = zip(*(item.split("/") for item in text.split()), strict=True)
    return TaggedSentence(list(words), list(tags), [], [1] * len(words), b"")


SPLITS = {
    "train": [sentence("a/X b/Y a/X"), sentence("a/Z c/Y")],
    "valid": [sentence("d/W d/W d/W c/Y")],
}


def learn(splits, column="upos", **options):
    """Tables of sentences, each split in one file."""
    config = preprocess_config(**{"format": "conllu", "trainpref": "t", **options})
    files = {split: [TaggedFile(Path(split), sentences)] for split, sentences in splits.items()}
    return build_tables(files, config.format.config, config, column)


def learn_splits(**options):
    return learn(SPLITS, **options)


def test_tables_are_learned_from_the_training_split():
    tables = learn_splits()
    assert tables.words == ["a", "b", "c"]  # by frequency, then as they come
    assert tables.tags == ["X", "Y", "Z"]
    assert set(tables.characters) == set("abc<PAD>")
    assert tables.ambiguous == [0]


def test_vocabulary_from_all_includes_words_and_tags_of_other_splits():
    tables = learn_splits(vocabulary_from="all")
    assert (tables.words, tables.tags) == (["a", "d", "c", "b"], ["Y", "W", "X", "Z"])
    assert "d" not in tables.characters  # as the paper's code: of the training part
    assert [tables.words[index] for index in tables.ambiguous] == ["a"]


@pytest.mark.parametrize(("column", "tags"), [("xpos", ["X"]), ("Number", ["X", "_"])])
def test_vocabulary_from_all_has_no_label_for_unknown_tags_except_absent_features(column, tags):
    splits = {"train": [sentence("a/X b/X")], "test": [sentence("a/_")]}
    assert learn(splits, column, vocabulary_from="all").tags == tags


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"type_fraction": 0.5}, ["a", "d"]),
        ({"vocab_size": 4}, ["a", "d", "c", "b"]),
        ({"min_count": 2}, ["a", "d", "c"]),
        ({"min_count": 3, "type_fraction": 0.75}, ["a", "d"]),
    ],
)
def test_vocabulary_limits_leave_out_rare_words(options, words):
    assert learn_splits(vocabulary_from="all", **options).words == words


def test_saved_tables_load_equal(tmp_path):
    learn_splits().save(tmp_path)
    assert LabelTables.load(tmp_path) == learn_splits()


def test_tables_require_training_data():
    with pytest.raises(ToolkitError, match="no training data to learn labels and words from"):
        learn({"valid": SPLITS["valid"]})


def test_feature_that_no_word_has_is_rejected_as_tag():
    with pytest.raises(ToolkitError, match=r"no word of .* has 'Numbr'. Correct --tag"):
        learn({"train": [sentence("a/_ b/_")]}, "Numbr")
    assert learn({"train": [sentence("a/_ b/Plur")]}, "Number").tags == ["_", "Plur"]

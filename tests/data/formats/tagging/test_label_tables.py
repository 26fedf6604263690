from pathlib import Path

import numpy as np
import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.split import split_into_chunks, word_indices
from toolkit.data.formats.tagging.tokenizer import build_tables
from toolkit.data.formats.tagging.treebanks import TaggedSentence


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
    files = {split: [(Path(split), sentences)] for split, sentences in splits.items()}
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


def test_feature_that_no_word_has_is_rejected_as_tag():
    with pytest.raises(ToolkitError, match=r"no word of .* has 'Numbr'. Choose another --tag"):
        learn({"train": [sentence("a/_ b/_")]}, "Numbr")
    assert learn({"train": [sentence("a/_ b/Plur")]}, "Number").tags == ["_", "Plur"]


def test_long_sentence_is_split_into_full_chunks_and_a_rest():
    chunks = split_into_chunks(np.array([130, 3]), np.ones(133, np.int64), 60)
    assert chunks.starts.tolist() == [0, 60, 120, 130]
    assert chunks.word_counts.tolist() == chunks.token_counts.tolist() == [60, 60, 10, 3]


def test_every_word_is_in_exactly_one_chunk():
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 40, 200)
    chunks = split_into_chunks(lengths, draw.integers(1, 7, lengths.sum()), 12)
    words = word_indices(chunks, np.arange(len(chunks.starts)))
    assert words.tolist() == list(range(lengths.sum()))
    assert chunks.token_counts.max() <= 12

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.cli.preprocess import main
from toolkit.commands.describe_data import describe_data
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.data.formats.tagging.tokenizer import ANY_COLUMN
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder


def test_folder_holds_words_and_tags_of_every_split(folder):
    found = folder()
    split = TaggedSplit(found, "valid")
    words = [split.words[t] for t in split.types]
    assert words == ["I", "bark", ".", "the", "cat", "barks", "."]
    assert split.lengths.tolist() == [3, 4]
    assert [split.tables.tags[t] for t in split.tags[:3]] == ["PRON", "VERB", "PUNCT"]


def test_meta_json_counts_unknown_and_ambiguous_words(folder):
    found = json.loads((folder().path / "meta.json").read_text())["splits"]["valid"]
    assert (found["words"], found["oov"], found["ambiguous"]) == (7, 1, 1)  # cat; bark


GOOD = "1\tI\t_\tPRON\t_\t_\t0\t_\t_\t_\n"
BAD = [  # a test part, and what is said of it
    (GOOD.replace("_\t0", "0") + "\n", "test.conllu:1: a word must have 10 columns"),
    (GOOD.replace("\t", " ") + "\n", "test.conllu:1: .* these are separated by spaces"),
    (GOOD.replace("PRON", "_") + "\n", "test.conllu:1: a word must have a UPOS tag, but 'I' has _"),
    (GOOD + GOOD + "\n", "test.conllu:2: .* A blank line is missing before it"),
    (GOOD, "test.conllu:1: a blank line must follow the last sentence"),
    (GOOD.replace("I", "I\rI") + "\n", "test.conllu:1: found a carriage return inside a line"),
    ((GOOD.replace("I", "\u00e9") + "\n").encode("latin1"), "test.conllu:1: expected UTF-8"),
    (GOOD.replace("PRON", "INTJ") + "\n", "test.conllu:1: tag 'INTJ' does not occur in the training"
     " data. Give --unseen-tags wrong"),
    ("", "test.conllu must hold text, but is empty"),
]  # fmt: skip


def ends(capsys, options, message):
    """Whether the command ends with code 2 and one line that says this."""
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    code, err = main(words), capsys.readouterr().err
    return code == 2 and err.count("\n") == 1 and re.search(message, err) is not None


@pytest.mark.parametrize(("text", "message"), BAD)
def test_malformed_input_is_named_by_file_and_line_with_exit_code_2(
    treebank, capsys, text, message
):
    options = treebank()
    data = text.encode() if isinstance(text, str) else text
    Path(options["testpref"]).write_bytes(data)
    assert ends(capsys, options, message)


def test_unbalanced_brackets_are_reported_with_exit_code_2(tmp_path, capsys):
    (tmp_path / "a.mrg").write_text("\n( (S (X a))\n")
    options = {"format": "ptb", "trainpref": str(tmp_path / "a.mrg"), "destdir": "nowhere"}
    assert ends(capsys, options, "a.mrg:2: brackets must be balanced, but 1 of this tree")


def test_treebank_without_training_data_is_reported_with_exit_code_2(treebank, capsys):
    assert ends(capsys, treebank(train=None), "no training data to learn labels and words from")


def test_unseen_tags_wrong_keeps_the_word(folder, sentences):
    found = folder({"valid": sentences("I oh/INTJ .")}, unseen_tags="wrong")
    assert TaggedSplit(found, "valid").tags.tolist()[1] == -1


def test_unseen_tags_wrong_reads_untagged_text(folder, sentences):
    found = folder({"test": sentences("I/_ bark/_ .")}, unseen_tags="wrong")
    assert TaggedSplit(found, "test").tags.tolist() == [-2, -2, 0]


def test_absent_feature_is_an_unseen_tag_if_all_training_words_have_it(folder, sentences):
    bare = sentences("the dog")
    texts = {"train": bare.replace("_\t_\t0", "_\tNumber=Sing\t0"), "valid": bare, "test": None}
    with pytest.raises(ToolkitError, match="tag '_' does not occur in the training data"):
        folder(texts, tag="Number")
    split = TaggedSplit(folder(texts, tag="Number", unseen_tags="wrong"), "valid")
    assert split.tags.tolist() == [-1, -1]


def test_unseen_tags_wrong_reads_untagged_columns(tmp_path):
    (tmp_path / "train").write_text("the DET\ndog NOUN\n\n")
    (tmp_path / "test").write_text("the _\ndog NOUN\n\n")
    files = {"trainpref": str(tmp_path / "train"), "testpref": str(tmp_path / "test")}
    options = {"format": "columns", "destdir": str(tmp_path / "data"), **files}
    with pytest.raises(ToolkitError, match="test:1: a word must have a tag, but 'the' has _"):
        preprocess(preprocess_config(**options))
    preprocess(preprocess_config(**options, unseen_tags="wrong", vocabulary_from="all"))
    split = TaggedSplit(DataFolder.open(options["destdir"]), "test")
    assert (split.tags.tolist(), len(split.tables.tags)) == ([-2, 0], 2)


def test_tags_of_a_converted_tagger_fit_every_column(folder, tmp_path):
    tokenizer = folder().tokenizer
    tokenizer.tables = dataclasses.replace(tokenizer.tables, column=ANY_COLUMN)
    tokenizer.save(tmp_path)
    again = folder(tokenizer_from=str(tmp_path), destdir=str(tmp_path / "again"))
    assert again.tokenizer.tables == tokenizer.tables


def test_advice_for_given_tables_names_only_unseen_tags(folder, sentences, tmp_path):
    given = {"tokenizer_from": str(folder().path), "destdir": str(tmp_path / "again")}
    with pytest.raises(ToolkitError, match=r"to keep the word and count it as an error\.$"):
        folder({"valid": sentences("I oh/INTJ .")}, **given)


def test_sentence_beyond_the_limit_is_an_error(treebank, sentences):
    options = treebank(test=sentences("I .", " ".join(["the"] * 290)))
    with pytest.raises(ToolkitError, match=r"test.conllu:6: .* at most 200 words, but has 290"):
        preprocess(preprocess_config(**options, max_item_tokens=200))
    preprocess(preprocess_config(**options))
    split = TaggedSplit(DataFolder.open(options["destdir"]), "test")
    assert split.lengths.tolist() == [2, 290]


def test_tokenizer_from_reuses_words_and_tags(folder, tmp_path):
    first = folder()
    again = folder(tokenizer_from=str(first.path), destdir=str(tmp_path / "again"))
    assert again.tokenizer.fingerprint == first.tokenizer.fingerprint
    both = DataFolder.open(first.path, again.path)
    split = TaggedSplit(both, "valid")
    assert split.types.tolist() == TaggedSplit(first, "valid").types.tolist() * 2


def test_labels_of_another_column_are_rejected(folder, treebank):
    first = folder()
    options = treebank() | {"tokenizer_from": str(first.path), "tag": "xpos", "overwrite": True}
    options |= {"unseen_tags": "wrong", "trainpref": ""}
    with pytest.raises(ToolkitError, match="has tags of upos, but the text has xpos"):
        preprocess(preprocess_config(**options))


def test_folders_with_different_tags_are_rejected(folder, tmp_path, sentences):
    first = folder()
    other = folder({"train": sentences("the dog/X barks .", "bark I"), "valid": None}, destdir=str(
        tmp_path / "other"), unseen_tags="wrong", tokenizer_from=None)  # fmt: skip
    with pytest.raises(ToolkitError, match="must agree on their"):
        TaggedSplit(DataFolder.open(first.path, other.path), "train")


def test_word_vectors_are_stored_in_vocabulary_order(folder, tmp_path):
    (tmp_path / "a.vec").write_text("2 3\ndog 1 2 3\nnone 0 0 0\n")
    found = folder(word_vectors=str(tmp_path / "a.vec"))
    table = found.word_vectors
    row = found.tokenizer.tables.word_index["dog"] + 2
    assert table.shape == (len(found.vocabulary), 3) and table[row].tolist() == [1, 2, 3]
    assert (np.abs(np.delete(table, row, 0)) <= 0.05).all()


def test_type_fraction_selects_the_papers_vocabulary(folder):
    found = folder(vocabulary_from="all", type_fraction=0.5)
    assert found.tokenizer.tables.words == [".", "the", "bark", "dog"][: round(0.5 * 7)]


def test_describe_data_shows_words_with_tags(folder):
    found = describe_data(str(folder().path), examples=2)
    assert found.facts["tokenizer"] == "words with tags"
    assert found.items["valid 1"] == "the/DET cat/NOUN barks/VERB ./PUNCT"

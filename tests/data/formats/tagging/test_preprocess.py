import dataclasses
import re
from itertools import product

import numpy as np
import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.cli.preprocess import main
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.data.formats.tagging.tokenizer import ANY_COLUMN, LabelTables, TaggingTokenizer
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer


def test_folder_holds_words_and_tags_of_every_split(folder):
    found = folder()
    split = TaggedSplit(found, "valid")
    words = [split.words[t] for t in split.types]
    assert words == ["I", "bark", ".", "the", "cat", "barks", "."]
    assert split.lengths.tolist() == [3, 4]
    assert [split.tables.tags[t] for t in split.tags[:3]] == ["PRON", "VERB", "PUNCT"]


def ends(capsys, options, message):
    """Whether the command ends with code 2 and one line that says this."""
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    code, err = main(words), capsys.readouterr().err
    return code == 2 and err.count("\n") == 1 and re.search(message, err) is not None


def test_unseen_tags_wrong_keeps_the_word(folder, sentences):
    found = folder({"valid": sentences("I oh/INTJ .")}, unseen_tags="wrong")
    assert TaggedSplit(found, "valid").tags.tolist()[1] == -1


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_tagged_text_trains_subwords_and_keeps_all_its_words(folder, sentences, kind):
    words = ["".join(letters) for letters in product("abcd", repeat=3)]
    text = sentences(*(f"{word}/NOUN {word}/NOUN ." for word in words))
    found = folder({"train": text, "valid": text, "test": text}, tokenizer=kind, vocab_size=20)
    split, tokenizer = TaggedSplit(found, "valid"), found.tokenizer
    assert tokenizer.inner.kind == kind and len(tokenizer.inner.vocabulary) < len(words)
    assert {*tokenizer.tables.words} == {*words, "."}
    assert [split.words[t] for t in split.types[::3]] == words
    ids, counts = tokenizer.encode_types(words)
    assert tokenizer.inner.decode(ids[: counts[0]].tolist()) == "aaa"


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


def test_words_are_symbols_after_padding_and_unknown(folder):
    tokenizer = folder().tokenizer
    assert tokenizer.vocabulary.symbols[:4] == ["<PAD>", "<OOV>", ".", "the"]
    assert tokenizer.sizes == {"tokens": 2 + 6, "characters": len(tokenizer.tables.characters) + 2,
                            "tags": 5}  # fmt: skip
    ids, counts = tokenizer.encode_types(["the", "cat", "<PAD>"])
    assert (ids.tolist(), counts.tolist()) == ([3, 1, 1], [1, 1, 1])


def test_char_ids_have_20_characters_and_one_id_for_unknown_ones(folder):
    tokenizer = folder().tokenizer
    known, long = tokenizer.char_ids(["dogЖ", "d" * 30])
    letters = [tokenizer.tables.characters[i - 2] for i in known[:3]]
    assert letters == ["d", "o", "g"] and known[3] == 1 and not known[4:].any()
    assert len(long) == 20 and (long == known[0]).all()


def test_every_word_has_at_least_one_piece_of_the_given_tokenizer(folder, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    found = folder(tokenizer_from=str(tmp_path)).tokenizer
    ids, counts = found.encode_types(["the", "\u200b", "river"])
    assert isinstance(found.inner, SentencePieceTokenizer) and not found.has_words
    assert ids[: counts[0]].tolist() == tokenizer.encode("the") and counts[1] == 1
    np.testing.assert_array_equal(ids[counts[:2].sum() :], tokenizer.encode("river"))
    assert ids[counts[0]] == tokenizer.vocabulary.unk


def test_converted_tagger_reads_data_with_the_same_tags(folder, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    data = folder(tokenizer_from=str(tmp_path)).tokenizer
    tables = {"characters": [], "words": [], "ambiguous": [], "column": ANY_COLUMN}
    tags = data.tables.tags
    same = TaggingTokenizer(tokenizer, LabelTables(tags=tags, **tables))
    other = TaggingTokenizer(tokenizer, LabelTables(tags=tags[::-1], **tables))
    assert data.describe_difference(same) == ""
    assert data.describe_difference(other) == "their tags differ"
    assert same.describe_difference(data) == "their vocabularies differ"


def test_byte_level_pieces_include_the_space_before_each_word(folder, byte_level, tmp_path):
    byte_level.save(tmp_path)
    found = folder(tokenizer_from=str(tmp_path)).tokenizer
    ids, counts = found.encode_types(["b", "a", "cab"])
    symbols = [found.vocabulary.symbols[i] for i in ids]
    assert symbols == ["Ġb", "Ġ", "a", "Ġc", "a", "b"] and counts.tolist() == [1, 2, 3]


def test_words_that_are_numbers_of_words_are_a_warning(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("1\tEU\tB-X\n2\t5\tO\n\n1\ta\tO\n")
    options = {"format": "columns", "trainpref": str(tmp_path / "a.txt"), "tag_column": 3}
    for column, warned in [(1, True), (2, False)]:
        destdir = str(tmp_path / str(column))
        preprocess(preprocess_config(word_column=column, destdir=destdir, **options))
        assert ("a.txt are numbers that count up" in capsys.readouterr().out) == warned
    with pytest.raises(ToolkitError, match=r"must differ, but both are 3\. Give --tag-column\."):
        preprocess(preprocess_config(word_column=3, destdir=destdir, **options))

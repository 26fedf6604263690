import numpy as np

from toolkit.data.formats.classification.split import ClassificationTokenizer, Labels
from toolkit.data.formats.tagging.tokenizer import ANY_COLUMN, LabelTables, TaggingTokenizer
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer


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


def test_saved_tagging_tokenizer_loads_with_its_tables(folder, tmp_path):
    tokenizer = folder().tokenizer
    tokenizer.save(tmp_path / "data")
    again = Tokenizer.load(tmp_path / "data")
    assert isinstance(again, TaggingTokenizer) and again.fingerprint == tokenizer.fingerprint
    assert again.decode(again.encode("the cat barks")) == "the <OOV> barks"


def test_every_word_has_at_least_one_piece_of_the_given_tokenizer(folder, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    found = folder(tokenizer_from=str(tmp_path)).tokenizer
    ids, counts = found.encode_types(["the", "\u200b", "river"])
    assert isinstance(found.inner, SentencePieceTokenizer) and not found.has_words
    assert ids[: counts[0]].tolist() == tokenizer.encode("the") and counts[1] == 1
    np.testing.assert_array_equal(ids[counts[:2].sum() :], tokenizer.encode("river"))
    assert ids[counts[0]] == tokenizer.vocabulary.unk


def test_labels_of_a_given_tokenizer_are_left_out(folder, tokenizer, tmp_path):
    labels = Labels(task="tsv", classes=["a", "b"], metrics=[], pairs=False, bounds=[])
    ClassificationTokenizer(tokenizer, labels).save(tmp_path)
    found = folder(tokenizer_from=str(tmp_path)).tokenizer
    assert isinstance(found.inner, SentencePieceTokenizer) and "labels" not in found.sizes


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

import numpy as np

from toolkit.data.formats.tagging.tokenizer import TaggedCodec
from toolkit.data.tokenizers.sentencepiece import SentencePieces
from toolkit.data.tokenizers.tokenizer import Codec


def test_words_are_symbols_behind_those_of_padding_and_unknown_ones(folder):
    codec = folder().codec
    assert codec.vocabulary.symbols[:4] == ["<PAD>", "<OOV>", ".", "the"]
    assert codec.counts == {"tokens": 2 + 6, "characters": len(codec.tables.characters) + 2,
                            "tags": 5}  # fmt: skip
    ids, counts = codec.pieces(["the", "cat", "<PAD>"])
    assert (ids.tolist(), counts.tolist()) == ([3, 1, 1], [1, 1, 1])


def test_words_are_spelt_to_twenty_characters_and_unknown_ones_are_one(folder):
    codec = folder().codec
    known, long = codec.spell(["dogЖ", "d" * 30])
    letters = [codec.tables.characters[i - 2] for i in known[:3]]
    assert letters == ["d", "o", "g"] and known[3] == 1 and not known[4:].any()
    assert len(long) == 20 and (long == known[0]).all()


def test_a_codec_comes_back_with_its_tables(folder, tmp_path):
    codec = folder().codec
    codec.save(tmp_path / "data")
    again = Codec.load(tmp_path / "data")
    assert isinstance(again, TaggedCodec) and again.fingerprint == codec.fingerprint
    assert again.decode(again.encode("the cat barks")) == "the <OOV> barks"


def test_pieces_of_words_are_those_of_the_given_codec_one_at_least(folder, codec, tmp_path):
    codec.save(tmp_path)
    found = folder(codec_from=str(tmp_path)).codec
    ids, counts = found.pieces(["the", "\u200b", "river"])
    assert isinstance(found.inner, SentencePieces) and not found.has_words
    assert ids[: counts[0]].tolist() == codec.encode("the") and counts[1] == 1
    np.testing.assert_array_equal(ids[counts[:2].sum() :], codec.encode("river"))
    assert ids[counts[0]] == codec.vocabulary.unk


def test_pieces_of_bytes_have_the_space_before_each_word(folder, byte_level, tmp_path):
    byte_level.save(tmp_path)
    found = folder(codec_from=str(tmp_path)).codec
    ids, counts = found.pieces(["b", "a", "cab"])
    symbols = [found.vocabulary.symbols[i] for i in ids]
    assert symbols == ["Ġb", "Ġ", "a", "Ġc", "a", "b"] and counts.tolist() == [1, 2, 3]

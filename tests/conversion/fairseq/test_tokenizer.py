"""Pieces are numbered by fairseq's dictionary."""

from __future__ import annotations

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.conversion.fairseq.tokenizer import load_tokenizer
from toolkit.data.preprocessing.train_tokenizer import train_sentencepiece
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

TEXTS = ["the cat sat on the mat", "a cat and a dog ran", "dogs run far and cats sit"]


@pytest.fixture
def model():
    config = preprocess_config(trainpref="x", destdir="y", vocab_size=40, workers=1)
    return train_sentencepiece(TEXTS * 9, config)


def write_dictionary(folder, symbols):
    (folder / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in symbols), "utf-8")
    return 4 + len(symbols) + 1


def test_sentencepiece_gets_the_ids_of_dict_txt(model, tmp_path):
    plain = SentencePieceTokenizer(model, lowercase=False)
    pieces = plain.vocabulary.symbols[3:-4][::-1]  # in another order
    rows = write_dictionary(tmp_path, pieces)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    tokenizer = load_tokenizer(tmp_path / "model.pt", rows)
    assert tokenizer.vocabulary.roles == {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": rows - 1}
    for text in TEXTS:
        named = [plain.vocabulary.symbols[i] for i in plain.encode(text)]
        assert [tokenizer.vocabulary.symbols[i] for i in tokenizer.encode(text)] == named
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_subwords_missing_from_dict_txt_are_unknown(model, tmp_path):
    plain = SentencePieceTokenizer(model, lowercase=False)
    lost = "\u2581cat"
    pieces = [piece for piece in plain.vocabulary.symbols[3:-4] if piece != lost]
    assert len(pieces) < len(plain.vocabulary.symbols) - 7
    rows = write_dictionary(tmp_path, pieces)
    (tmp_path / "sentencepiece.model").write_bytes(model)
    tokenizer = load_tokenizer(tmp_path / "model.pt", rows)
    assert tokenizer.encode("cat")[0] == tokenizer.vocabulary.unk


def test_without_subword_files_words_are_symbols(tmp_path):
    rows = write_dictionary(tmp_path, ["the", "cat"])
    tokenizer = load_tokenizer(tmp_path / "model.pt", rows)
    assert isinstance(tokenizer, WordLevelTokenizer) and tokenizer.encode("the cat sat") == [
        4,
        5,
        3,
    ]


def test_a_damaged_sentencepiece_model_is_rejected(tmp_path):
    rows = write_dictionary(tmp_path, ["the", "cat"])
    (tmp_path / "sentencepiece.model").write_bytes(b"no model")
    with pytest.raises(ToolkitError, match=r"SentencePiece"):
        load_tokenizer(tmp_path / "model.pt", rows)
    (tmp_path / "encoder.json").write_text("{")
    (tmp_path / "vocab.bpe").write_text("t h\n")
    with pytest.raises(ToolkitError, match=r"must list subwords and merges"):
        load_tokenizer(tmp_path / "model.pt", rows)

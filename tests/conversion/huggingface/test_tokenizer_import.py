"""What tokenizer.json and the files beside it say."""

from __future__ import annotations

import json

import pytest
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tests.conversion.conftest import PIECES, write_vocabulary
from toolkit.common.errors import ToolkitError
from toolkit.conversion.huggingface.tokenizer_import import load_tokenizer
from toolkit.data.tokenizers.wordpiece import WordPieceTokenizer

ROWS = len(PIECES)


def settings(folder, **found):
    (folder / "tokenizer_config.json").write_text(json.dumps(found))


def word_piece(**normal):
    found = Tokenizer(models.WordPiece({p: i for i, p in enumerate(PIECES)}, unk_token="[UNK]"))
    found.normalizer = normalizers.BertNormalizer(**normal)
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.decoder = decoders.WordPiece()
    return found


@pytest.mark.parametrize("lower", [True, False])
def test_vocab_txt_is_read_as_the_settings_say(tmp_path, lower):
    write_vocabulary(tmp_path)
    settings(tmp_path, do_lower_case=lower)
    tokenizer = load_tokenizer(tmp_path, ROWS)
    assert isinstance(tokenizer, WordPieceTokenizer) and tokenizer.lowercase is lower
    assert tokenizer.encode("The cats") == ([5, 6, 10] if lower else [1, 6, 10])


def test_a_bert_tokenizer_becomes_wordpiece(tmp_path):
    write_vocabulary(tmp_path)
    theirs = transformers.BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=True)
    theirs.save_pretrained(tmp_path / "saved")
    tokenizer = load_tokenizer(tmp_path / "saved", ROWS)
    assert isinstance(tokenizer, WordPieceTokenizer) and tokenizer.lowercase
    assert tokenizer.vocabulary.symbols == PIECES


def test_other_tokenizers_are_read_from_tokenizer_json(tmp_path):
    word_piece(lowercase=True, strip_accents=False).save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path, ROWS)
    assert tokenizer.kind == "huggingface"
    assert (
        tokenizer.encode("\u00dcber UN") == [19, 20, 17]
        and tokenizer.decode([5, 6, 10]) == "the cats"
    )
    assert tokenizer.vocabulary.roles == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


def test_spare_rows_get_unused_symbols(tmp_path):
    write_vocabulary(tmp_path)
    assert load_tokenizer(tmp_path, ROWS + 2).vocabulary.symbols[-1] == f"[no symbol {ROWS + 1}]"
    word_piece(lowercase=False, clean_text=False).save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(tmp_path, ROWS + 1).vocabulary.symbols[-1] == f"[no symbol {ROWS}]"


def byte_level(folder):
    pieces = ["<pad>", "<s>", "</s>", "<mask>", "<unk>", "t", "h", "e", "\u0120", "th", "the"]
    index = {piece: i for i, piece in enumerate(pieces)}
    found = Tokenizer(models.BPE(index, [("t", "h"), ("th", "e")], unk_token="<unk>"))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    found.add_special_tokens(pieces[:5])
    found.save(str(folder / "tokenizer.json"))
    return len(pieces)


def test_special_tokens_are_those_of_the_settings(tmp_path):
    rows = byte_level(tmp_path)
    names = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "mask_token": "<mask>"}
    settings(tmp_path, **names, pad_token="<pad>", unk_token="<unk>")
    tokenizer = load_tokenizer(tmp_path, rows)
    assert tokenizer.vocabulary.roles == {"pad": 0, "cls": 1, "sep": 2, "mask": 3, "unk": 4}
    assert tokenizer.encode("the the") == [10, 8, 10] and tokenizer.encode("<pad>the") != [0, 10]
    assert not set(tokenizer.encode("<s> <mask>")) & {1, 3}
    settings(tmp_path, mask_token="<mask>")
    with pytest.raises(
        ToolkitError, match=r"must name the special symbols .* cls_token, sep_token"
    ):
        load_tokenizer(tmp_path, rows)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tokenizer.json", "{", r"must describe a tokenizer, but does not"),
        ("tokenizer.json", "[]", r"must describe a tokenizer, but does not"),
        ("tokenizer.json", '{"model": {"vocab": {"[PAD]": 0}}}', r"must name the special symbols"),
        ("tokenizer.json", '{"model": {"vocab": {"the": "0"}}}', r"must describe a tokenizer, but"),
        ("vocab.txt", "the\ncat\n", r"must list \[PAD\]"),
        (
            "tokenizer_config.json",
            "{",
            r"_config\.json: .* at column 2\. Copy",
        ),
        ("nothing", "", r"must hold tokenizer.json or vocab.txt, but has neither"),
    ],
)
def test_import_rejects_unreadable_tokenizer_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ToolkitError, match=message):
        load_tokenizer(tmp_path, ROWS)


def test_import_rejects_a_tokenizer_with_too_many_symbols(tmp_path):
    write_vocabulary(tmp_path)
    with pytest.raises(ToolkitError, match=rf"but has {ROWS} for {ROWS - 1} rows"):
        load_tokenizer(tmp_path, ROWS - 1)
    word_piece(lowercase=False, clean_text=False).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ToolkitError, match=rf"but has {ROWS} for {ROWS - 1} rows"):
        load_tokenizer(tmp_path, ROWS - 1)


def test_import_rejects_unusual_splitting_without_tokenizer_json(tmp_path):
    write_vocabulary(tmp_path)
    settings(tmp_path, tokenize_chinese_chars=False)
    with pytest.raises(ToolkitError, match=r"must describe BERT's own splitting of words"):
        load_tokenizer(tmp_path, ROWS)

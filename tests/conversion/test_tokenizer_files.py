"""What tokenizer.json and the files beside it say."""

from __future__ import annotations

import base64
import json
import unicodedata

import pytest
import sentencepiece
import tokenizers
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tests.conversion.conftest import PIECES, write_vocabulary
from toolkit.common.errors import ToolkitError
from toolkit.conversion.tokenizer_files import write_tokenizer
from toolkit.data.tokenizers.huggingface import (
    HuggingFaceTokenizer,
    WordPieceTokenizer,
    lowercase_normalizers,
)
from toolkit.data.tokenizers.offsets import lower_without_accents, to_line
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, train_pieces
from toolkit.data.tokenizers.tokenizer_json import load_tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

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
    (tmp_path / "tokenizer_config.json").unlink()  # the usual names
    assert load_tokenizer(tmp_path, rows).vocabulary.roles == tokenizer.vocabulary.roles


def test_import_rejects_a_tokenizer_with_too_many_symbols(tmp_path):
    write_vocabulary(tmp_path)
    with pytest.raises(ToolkitError, match=rf"but has {ROWS} for {ROWS - 1} rows"):
        load_tokenizer(tmp_path, ROWS - 1)


TEXTS = [
    "The cats sat on a mat.",
    "",
    "  two  spaces, a\ttab and a\u00a0hard one ",
    "Caf\u00e9 na\u00efve \u00fcber A\u030angstr\u00f6m \ufb01sh \u2460",
    "\u039b\u039f\u0393\u039f\u03a3 \u03a3\u03a3\u03a3 \u03a3 \u0391\u03a3.",
    "\u4e2d\u6587 \u0928\u092e\u0938\u094d\u0924\u0947 \u0130stanbul stra\u00dfe \U0001f600",
    "9,000.50 -- e-mail@example.org (it's)",
]


def opened(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def hf_ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.fixture(scope="module")
def model():
    """A small unigram model of the texts above, in both cases."""
    texts = [*TEXTS, *(text.lower() for text in TEXTS)]
    return train_pieces(texts * 3, vocabulary_size=90)


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_unigram_model_keeps_its_ids_in_a_round_trip(model, tmp_path, lowercase):
    tokenizer = SentencePieceTokenizer(model, lowercase=lowercase)
    write_tokenizer(tmp_path, tokenizer, positions=16)
    hf_tokenizer, back = opened(tmp_path), load_tokenizer(tmp_path, len(tokenizer.vocabulary))
    for text in TEXTS:
        assert hf_ids(hf_tokenizer, text) == tokenizer.encode(text) == back.encode(text), text
    assert back.vocabulary.fingerprint == tokenizer.vocabulary.fingerprint
    assert len(hf_tokenizer) == len(tokenizer.vocabulary)


def test_exported_tokenizer_adds_special_tokens(model, tmp_path):
    tokenizer = SentencePieceTokenizer(model, lowercase=True)
    write_tokenizer(tmp_path, tokenizer, positions=16)
    hf_tokenizer, roles = opened(tmp_path), tokenizer.vocabulary.roles
    found = hf_tokenizer("a [MASK]", "b", padding="max_length", max_length=9)
    a, b = tokenizer.encode("a"), tokenizer.encode("b")
    ids = [roles["cls"], *a, roles["mask"], roles["sep"], *b, roles["sep"]]
    assert found["input_ids"] == ids + [roles["pad"]] * (9 - len(ids))
    assert found["token_type_ids"][: len(ids)] == [0] * (3 + len(a)) + [1] * (1 + len(b))
    assert hf_tokenizer.model_max_length == 16
    assert [hf_tokenizer.bos_token_id, hf_tokenizer.eos_token_id] == [roles["cls"], roles["sep"]]
    write_tokenizer(tmp_path, tokenizer, positions=16, template="prompt")
    hf_tokenizer = opened(tmp_path)
    assert hf_tokenizer("a")["input_ids"] == [roles["sep"], *a]
    assert [hf_tokenizer.bos_token_id, hf_tokenizer.eos_token_id] == [roles["sep"]] * 2


def test_wordpiece_survives_a_round_trip(tmp_path):
    for lowercase in (True, False):
        tokenizer = WordPieceTokenizer.from_symbols(PIECES, lowercase=lowercase)
        folder = tmp_path / str(lowercase)
        folder.mkdir()
        write_tokenizer(folder, tokenizer, positions=16)
        hf_tokenizer, back = opened(folder), load_tokenizer(folder, len(PIECES))
        assert isinstance(back, WordPieceTokenizer) and back.lowercase is lowercase
        assert (folder / "vocab.txt").read_text("utf-8").split() == PIECES
        for text in TEXTS:
            assert hf_ids(hf_tokenizer, text) == tokenizer.encode(text) == back.encode(text)


def test_a_word_level_tokenizer_keeps_its_ids_in_a_round_trip(tmp_path):
    tokenizer = WordLevelTokenizer.from_symbols(
        ["<s>", "<pad>", "</s>", "<unk>", "the", "caf\u00e9", "a"]
    )
    write_tokenizer(tmp_path, tokenizer, positions=16)
    hf_tokenizer, back = opened(tmp_path), load_tokenizer(tmp_path, len(tokenizer.vocabulary))
    for text in ("the caf\u00e9\x1ca", " the  unknown\u2009word ", ""):
        assert hf_ids(hf_tokenizer, text) == tokenizer.encode(text) == back.encode(text)
    assert back.vocabulary.roles == tokenizer.vocabulary.roles


def test_a_tokenizer_json_keeps_its_flags_and_pair_template(byte_level, tmp_path):
    given = tokenizers.Tokenizer.from_str(byte_level.text)
    mask = tokenizers.AddedToken("<mask>", special=True, normalized=False, lstrip=True)
    given.add_special_tokens([mask])
    given.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = HuggingFaceTokenizer(given.to_str(), byte_level.vocabulary.roles)
    write_tokenizer(tmp_path, tokenizer, positions=16)
    found = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    assert found | {"normalizer": None} == json.loads(tokenizer.text)
    assert opened(tmp_path)("a <mask>", "b")["input_ids"] == [0, 5, 4, 2, 2, 6, 2]


def test_line_breaks_are_spaces_in_exported_byte_level_tokenizers(byte_level, tmp_path):
    write_tokenizer(tmp_path, byte_level, positions=16)
    for text in ("a\nb", "a\r\nb\ta", "a\u0085b\u2028a"):
        assert hf_ids(opened(tmp_path), text) == byte_level.encode(to_line(text))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "bpe"}, r"is not a unigram model"),
        ({"user_defined_symbols": "cat"}, r"has user-defined symbols"),
        ({"treat_whitespace_as_suffix": True}, r"marks the ends of words"),
    ],
)
def test_export_rejects_tokenizers_that_tokenizer_json_cannot_express(tmp_path, options, message):
    prefix = str(tmp_path / "m")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([t for t in TEXTS if t] * 5),
        model_prefix=prefix,
        vocab_size=80,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    tokenizer = SentencePieceTokenizer((tmp_path / "m.model").read_bytes(), lowercase=False)
    with pytest.raises(ToolkitError, match=message):
        write_tokenizer(tmp_path, tokenizer, positions=16)


@pytest.fixture(scope="module")
def lowered():
    return normalizers.Sequence(lowercase_normalizers()).normalize_str


@pytest.mark.slow
def test_lowercase_normalizers_equal_the_toolkit_for_every_character(lowered):
    codes = [c for c in range(0x20000) if not 0xD800 <= c < 0xE000]
    assigned = [c for c in codes if unicodedata.category(chr(c)) != "Cn"]
    others = [c for c in assigned if lowered(f"x{chr(c)}x") != lower_without_accents(f"x{chr(c)}x")]
    assert len(assigned) > 80_000 and not [c for c in others if c < 0x3000]
    assert len(others) < 150  # since Unicode 12 (2019), of which the package tokenizers knows less


def test_a_tokenizer_that_panics_is_one_line(capfd):
    charsmap = base64.b64encode(b"\5\0\0\0abcdefgh").decode()
    tokenizer = json.loads(Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0)).to_str())
    tokenizer["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    with pytest.raises(ToolkitError, match="must describe a tokenizer, but the package tokenizers"):
        HuggingFaceTokenizer(json.dumps(tokenizer), {})
    assert not capfd.readouterr().err


def test_a_normalizer_without_its_settings_is_one_line(tmp_path):
    path = tmp_path / "tokenizer.json"
    word_piece(lowercase=True, strip_accents=None).save(str(path))
    description = json.loads(path.read_text())
    del description["normalizer"]["lowercase"]
    path.write_text(json.dumps(description))
    with pytest.raises(ToolkitError, match="must describe a tokenizer, but the package tokenizers"):
        load_tokenizer(tmp_path, ROWS)

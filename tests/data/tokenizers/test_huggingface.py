import json

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer

tokenizers = pytest.importorskip("tokenizers")

from toolkit.data.tokenizers.huggingface import HuggingFaceTokenizer  # noqa: E402

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "\u2581the",
    "\u2581",
    "s",
    "the",
    "\u2581a",
]
ROLES = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


def description(pieces=PIECES):
    scores = [(piece, -float(i)) for i, piece in enumerate(pieces)]
    found = tokenizers.Tokenizer(tokenizers.models.Unigram(scores, 1))
    found.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    found.decoder = tokenizers.decoders.Metaspace()
    found.add_special_tokens(pieces[:5])
    return found.to_str()


@pytest.fixture
def tokenizer():
    return HuggingFaceTokenizer(description(), ROLES)


def test_huggingface_ids_follow_the_description(tokenizer):
    ids, lengths = tokenizer.encode_lines(["the a", "", "the"])
    assert ids.tolist() == [5, 9, 5] and lengths.tolist() == [2, 0, 1]
    assert tokenizer.decode([2, 5, 9, 3]) == "[CLS] the a [SEP]"


def test_text_never_pads_masks_or_ends_a_sentence(tokenizer):
    for name in ("[PAD]", "[MASK]", "[SEP]", "[CLS]"):
        assert not set(tokenizer.encode(f"the {name} the{name}")) & {0, 2, 3, 4}


@pytest.mark.parametrize(
    ("pieces", "starts", "displayed"),
    [
        (["\u2581the", "s"], [True, False], ["the", "…s"]),
        (["\u0120the", "s"], [True, False], ["the", "…s"]),
        (["the", "##s"], [True, False], ["the", "…s"]),
        (["the", "s"], [True, True], ["the", "s"]),
    ],
)
def test_word_starts_follow_from_the_marks(pieces, starts, displayed):
    vocabulary = HuggingFaceTokenizer(description([*PIECES[:5], *pieces]), ROLES).vocabulary
    assert vocabulary.words.starts(np.arange(5, 7)).tolist() == starts
    assert [vocabulary.display_symbol(symbol) for symbol in pieces] == displayed


def test_saved_huggingface_tokenizer_loads_equal(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    back = Tokenizer.load(tmp_path)
    assert back.kind == "huggingface" and back.vocabulary.symbols == tokenizer.vocabulary.symbols
    assert back.encode("the a s") == tokenizer.encode("the a s")


def test_mismatched_tokenizer_files_are_rejected(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    (tmp_path / "tokenizer.json").write_text(description([*PIECES[:-1], "\u2581b"]), "utf-8")
    with pytest.raises(ToolkitError, match=r"must list the symbols of tokenizer.json, but differs"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": 3}))
    with pytest.raises(
        ToolkitError, match=r"must describe a tokenizer, but the package tokenizers"
    ):
        Tokenizer.load(tmp_path)

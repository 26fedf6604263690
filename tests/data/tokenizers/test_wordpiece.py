import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.huggingface import (
    SPECIAL,
    WordPieceTokenizer,
    train_word_pieces,
)

UNUSED = [f"[unused{i}]" for i in range(99)]
BERT = ["[PAD]", *UNUSED, "[UNK]", "[CLS]", "[SEP]", "[MASK]"]  # the first lines of BERT's files
PIECES = ["the", "river", "rive", "##r", "##s", "caf", "##e", ".", "中", "##ing", "ing", "r"]
PIECES += [",", "##.", "##,"]  # as BERT has them
TEXTS = [
    "The Café, by the RIVERS... it's 1,234 naïve-ish e\u0301t\u00e9!",
    "\u6771\u4eac is Tokyo; \u4e2d\u6587abc \u0416\u0443\u043a \u0130stanbul \u1e9e \u03a3\u03a3",
    "tab\there\u00a0nbsp\u200bzero\u00adsoft\ufffdbad\u2028line   \x07bell",
    "a" * 101 + " short " + "\u0301 \ufb01ne \u00bd \ud55c\uad6d\uc5b4 \U0001f600\U0001f44d\u200d",
]


@pytest.fixture
def vocab_file(text_file):
    return text_file("\n".join([*BERT, *PIECES]) + "\n", "vocab.txt")


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def trained(request, random_prose):
    items = [*TEXTS * 3, *random_prose(200).split("\n")]
    options = {"vocab_size": 250, "character_coverage": 1.0, "lowercase": request.param}
    symbols = train_word_pieces(items, **options)
    return WordPieceTokenizer.from_symbols(symbols, lowercase=request.param)


def hf(tokenizer, folder):
    transformers = pytest.importorskip("transformers")
    path = folder / "vocab.txt"
    path.write_text("".join(f"{symbol}\n" for symbol in tokenizer.vocabulary.symbols))
    # Before version 5 another, slower one has this name, which composes accents of cased text.
    kind = getattr(transformers, "BertTokenizerFast", transformers.BertTokenizer)
    return kind(str(path), do_lower_case=tokenizer.lowercase)


def test_ids_are_those_of_transformers(trained, tmp_path):
    other = hf(trained, tmp_path)
    for text in TEXTS:
        assert trained.encode(text) == other.encode(text, add_special_tokens=False)


@pytest.mark.realdata
def test_ids_of_real_text_are_those_of_transformers(trained, tmp_path, real_data):
    other = hf(trained, tmp_path)
    files = sorted((real_data / "text").rglob("*.txt"))
    lines = [line for file in files for line in file.read_text("utf-8-sig").split("\n")[:60]]
    assert len(lines) > 400
    ids, lengths = trained.encode_lines(lines)
    want = [other.encode(line, add_special_tokens=False) for line in lines]
    assert lengths.tolist() == [len(found) for found in want]
    assert ids.tolist() == [i for found in want for i in found]


def test_the_longest_piece_that_fits_comes_first(vocab_file):
    tokenizer = WordPieceTokenizer.from_file(vocab_file, lowercase=True)
    symbols = tokenizer.vocabulary.symbols
    found = [symbols[i] for i in tokenizer.encode("The RIVERS café. 中中 zebra")]
    assert found == ["the", "river", "##s", "caf", "##e", ".", "中", "中", "[UNK]"]
    assert tokenizer.decode(tokenizer.encode("the rivers cafe .")) == "the rivers cafe."


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*BERT, "a", "a"], "vocab.txt:106: expected a new piece, found that of line 105"),
        ([*BERT, "", "a"], "vocab.txt:105: expected a new piece, found a blank line"),
        (["a", "[PAD]", "[UNK]"], r"but \[CLS\], \[SEP\], \[MASK\] is missing"),
    ],
)
def test_invalid_wordpiece_vocabulary_is_rejected(text_file, lines, message):
    with pytest.raises(ToolkitError, match=message):
        WordPieceTokenizer.from_file(text_file("\r\n".join(lines), "vocab.txt"), lowercase=False)


def train(items, **options):
    return train_word_pieces(items, **{"lowercase": False, "character_coverage": 0.9995, **options})


def test_training_lists_special_tokens_then_characters_then_merged_pieces():
    found = train(["aab aab b"] * 3, vocab_size=6, character_coverage=1.0)
    assert found == [*SPECIAL.values(), "a", "b", "##a", "##b", "aa", "aab"][: len(found)]
    assert len(found) == 11


def test_vocabulary_smaller_than_the_alphabet_is_an_error():
    with pytest.raises(ToolkitError, match="at least twice the 5 characters of the text, but is 9"):
        train(["a b c d e"], vocab_size=9)

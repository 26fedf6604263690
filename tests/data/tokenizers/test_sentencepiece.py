import io

import pytest
import sentencepiece

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "the Café was, indeed: old.",
    "  two   spaces ",
    "",
    "tab\there \u6771\u4eac x",
    "a b\u00a0c \u00b4d \ufb01n",
]


def trained(text, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, minloglevel=2, hard_vocab_limit=False,
        **{"vocab_size": 60, **options},
    )  # fmt: skip
    return model.getvalue()


def whole(tokenizer, text):
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model).encode(text)


@pytest.mark.parametrize("text", TEXTS)
def test_word_by_word_encoding_equals_that_of_the_whole_line(tokenizer, text):
    assert tokenizer.word_by_word
    assert tokenizer.encode(text) == whole(tokenizer, text)


@pytest.mark.parametrize(
    "options",
    [{"split_by_whitespace": False}, {"add_dummy_prefix": False}, {"model_type": "bpe"},
     {"remove_extra_whitespaces": False}, {"treat_whitespace_as_suffix": True}],
)  # fmt: skip
def test_other_kinds_of_models_are_encoded_as_by_sentencepiece(options):
    lines = ["the cat sat on the mat", "on the mat the cat sat", "the dog  sat"] * 9
    other = SentencePieceTokenizer(trained(lines, vocab_size=40, **options), lowercase=False)
    assert other.word_by_word == (options == {"model_type": "bpe"})
    for line in [*lines[:3], " on  the mat "]:
        assert other.encode(line) == whole(other, line)


def test_lower_case_drops_accents_as_albert_does(tokenizer):
    lower = SentencePieceTokenizer(tokenizer.model, lowercase=True)
    assert lower.encode("Café RIVER ﬁve Ǻ") == tokenizer.encode("cafe river five a")


def test_commas_after_digits_are_split_as_in_albert():
    lines = ["it is 1999, he said", "9, 99, 1999,", "in 1999, or 9, ok"] * 30
    model = trained(lines, vocab_size=45)
    plain, split = (
        SentencePieceTokenizer(model, lowercase=False, split_digit_commas=s) for s in (False, True)
    )
    symbols = plain.vocabulary.symbols
    assert any(s[-1] == "," and s[-2:-1].isdigit() for s in symbols)
    for text in ("in 1999, he", "9,", "99,9, 9,9"):
        found = [symbols[i] for i in split.encode(text)]
        assert not any(s[-1] == "," and s[-2:-1].isdigit() for s in found)
        assert split.decode(split.encode(text)) == plain.decode(plain.encode(text)) == text


def test_special_tokens_are_parsed_only_on_request(tokenizer):
    ids = tokenizer.encode_parsing_special("the [MASK] house[SEP]")
    words = tokenizer.vocabulary
    the, house = tokenizer.encode("the"), tokenizer.encode("house")
    assert ids == [*the, words.mask, *house, words.sep]
    assert tokenizer.decode(ids) == "the [MASK] house [SEP]"
    assert words.mask not in tokenizer.encode("the [MASK] house")


def test_symbols_of_another_model_are_rejected(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    symbols = tmp_path / "dict.txt"
    symbols.write_text(symbols.read_text().replace("[MASK]", "[MUSK]"))
    with pytest.raises(
        ToolkitError, match=r"must list the pieces of sentencepiece.model, but differs"
    ):
        Tokenizer.load(tmp_path)

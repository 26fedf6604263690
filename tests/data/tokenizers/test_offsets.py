from __future__ import annotations

import numpy as np
import pytest

from toolkit.data.formats.classification.split import ClassificationTokenizer, Labels
from toolkit.data.tokenizers.huggingface import SPECIAL, HuggingFaceTokenizer, WordPieceTokenizer
from toolkit.data.tokenizers.offsets import (
    WordCache,
    lower_without_accents,
    span_mapper,
    to_line,
)
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer


def letters(words):
    return [[ord(letter) for letter in word] for word in words]


def test_word_cache_concatenates_the_ids_of_words():
    ids, lengths, _ = WordCache(letters).encode_lines(["ab c", "", " c  ab"])
    assert "".join(map(chr, ids)) == "abccab" and lengths.tolist() == [3, 0, 3]
    ids, lengths, _ = WordCache(letters).encode_lines([])
    assert (len(ids), len(lengths)) == (0, 0)


def test_failed_segmentation_leaves_no_word_behind():
    def segment(words):
        if "bad" in words:
            raise ValueError
        return letters(words)

    cache = WordCache(segment)
    cache.encode_lines(["known"])
    with pytest.raises(ValueError):
        cache.encode_lines(["hello bad"])
    for word in ("hello", "world", "hello", "known"):
        assert "".join(map(chr, cache.encode_lines([word])[0])) == word


LINES = [
    "The small  Caf\u00e9 was, indeed: 1,234 times \u201cold\u201d near it.",
    "",
    " cafe\u0301\tHOUSE \u00bd \ufb01ne \u0130t ",
    "\u4e2d\u6587 a\u00a8b \u03a3\u039f\u03a6\u039f\u03a3",
]
PIECES = [*SPECIAL.values(), "the", "small", "cafe", "caf\u00e9", "wa", "##s", ",", "house"]


def byte_level():
    package = pytest.importorskip("tokenizers")
    trained = package.ByteLevelBPETokenizer(add_prefix_space=False)
    trained.train_from_iterator(LINES * 3, vocab_size=300, special_tokens=["<s>", "<pad>", "</s>"])
    trained.add_special_tokens(["<unk>", "<mask>"])
    roles = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
    ids = {role: trained.token_to_id(name) for role, name in roles.items()}
    return HuggingFaceTokenizer(trained.to_str(), ids)


def crossing():
    """SentencePiece whose pieces reach over spaces."""
    import io

    import sentencepiece

    model, text = io.BytesIO(), ["the old house", "the old river"] * 50
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        vocab_size=40,
        split_by_whitespace=False,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return SentencePieceTokenizer(model.getvalue(), lowercase=True)


@pytest.fixture(
    params=["pieces", "lower", "cut", "words", "lower words", "wordpiece", "cased", "bytes", "over"]
)
def any_tokenizer(request, tokenizer):
    labels = Labels(task="tsv", classes=["a", "b"], metrics=["accuracy"], pairs=False, bounds=[])
    made = {
        "pieces": lambda: ClassificationTokenizer(tokenizer, labels),
        "lower": lambda: SentencePieceTokenizer(tokenizer.model, lowercase=True),
        "cut": lambda: SentencePieceTokenizer(
            tokenizer.model, lowercase=False, split_digit_commas=True
        ),
        "words": lambda: WordLevelTokenizer.from_counts({"The": 2, "old": 1}, size=9),
        "lower words": lambda: WordLevelTokenizer.from_counts({"the": 2}, size=9, lowercase=True),
        "wordpiece": lambda: WordPieceTokenizer.from_symbols(PIECES, lowercase=True),
        "cased": lambda: WordPieceTokenizer.from_symbols(PIECES, lowercase=False),
        "bytes": byte_level,
        "over": crossing,
    }
    return made[request.param]()


def test_tokens_with_offsets_equal_those_of_encoding(any_tokenizer: Tokenizer):
    found, (ids, lengths) = (
        any_tokenizer.encode_with_offsets(LINES),
        any_tokenizer.encode_lines(LINES),
    )
    assert np.array_equal(found.ids, ids) and np.array_equal(found.lengths, lengths)


def test_tokens_cover_every_letter_of_their_line_in_order(any_tokenizer: Tokenizer):
    found = any_tokenizer.encode_with_offsets(LINES)
    ends = np.cumsum(found.lengths)
    for line, begin, end in zip(LINES, ends - found.lengths, ends, strict=True):
        begins, stops = found.starts[begin:end], found.ends[begin:end]
        assert (begins <= stops).all() and (np.diff(begins) >= 0).all()
        covered = {p for b, e in zip(begins, stops, strict=True) for p in range(b, e)}
        assert covered >= {p for p, c in enumerate(line) if c.isalnum()}
        edges = [*begins[begins < stops], *(stops[begins < stops] - 1)]
        assert not any(line[edge].isspace() for edge in edges)


def test_tabs_and_line_breaks_become_spaces_and_no_break_spaces_stay():
    assert to_line("10\u00a0000\tdogs\u2028and\u2009cats") == "10\u00a0000 dogs and\u2009cats"


def test_offsets_are_mapped_back_through_lower_casing():
    text = "\u00bd\u0130 e\u0301\ufb01\ud55c"
    plain, back = lower_without_accents(text), span_mapper(text, lowercase=True)
    assert [text[slice(*back((i, i + 1)))] for i in range(3)] == ["\u00bd"] * 3
    place = plain.index("e")
    assert text[slice(*back((place, place + 1)))] == "e\u0301"
    assert back((len(plain), len(plain))) == (len(text), len(text))
    assert back((0, len(plain))) == (0, len(text))

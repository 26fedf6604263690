"""The tokens of each word of a sentence, for every kind of tokenizer."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from toolkit.common.arrays import IntArray, split_rows
from toolkit.data.tokenizers.offsets import Span
from toolkit.data.tokenizers.tokenizer import Tokenizer


def find_word_ends(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[IntArray]:
    """For each token of each sentence, the index after the last token of its word.

    A word is a run of letters, with their vowel signs and accents, and digits. Chinese characters
    and all others are words by themselves, as in BERT's tokenizer. The characters that tokens
    cover decide, so the marks of SentencePiece, WordPiece and byte-level pieces lead to the same
    words.
    """
    offsets = tokenizer.encode_with_offsets(sentences)
    edges = np.stack([offsets.starts, offsets.ends], 1)
    rows = split_rows(edges, offsets.lengths)
    return [
        word_ends([(start, end) for start, end in spans.tolist()], sentence)
        for spans, sentence in zip(rows, sentences, strict=True)
    ]


def word_ends(spans: Sequence[Span], sentence: str) -> IntArray:
    """The index after the last token of each token's word, from the tokens' characters."""
    ends = np.full(len(spans), len(spans))
    for token in range(len(spans) - 1, 0, -1):
        joined = continues_word(spans[token - 1], spans[token], sentence)
        ends[token - 1] = ends[token] if joined else token
    return ends


def continues_word(before: Span, span: Span, sentence: str) -> bool:
    """Whether a token continues the word of the token before it."""
    (start, end), first = before, span[0]
    if first < end or (start == end == first):  # bytes of one character, or a mark alone
        return True
    return first == end < len(sentence) and joins(sentence[end - 1]) and joins(sentence[first])


def joins(character: str) -> bool:
    """Whether a word may go on before and after this character."""
    if unicodedata.name(character, "").startswith("CJK "):
        return False
    return character.isalnum() or unicodedata.category(character).startswith("M")

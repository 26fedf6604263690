"""The words that preprocessing counts."""

import pytest

from toolkit.data.tokenizers.tokenizer import Tokenizer

LINES = [
    "the cat  sat on\tthe mat",
    "a\u00a0man's dog, and it ran",
    "\u4e2d\u6587 text",
    "the \u200b",
    "cat",
]


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece", "words"])
def test_words_start_in_the_tokens_of_their_line(kind):
    tokenizer = Tokenizer.train(LINES * 3, kind=kind, vocabulary_size=40)
    ids, lengths, words = tokenizer.encode_counting_words(LINES)
    assert ids.tolist() == tokenizer.encode_lines(LINES)[0].tolist()
    ends = lengths.cumsum()
    counted = [int(words[end - n : end].sum()) for n, end in zip(lengths, ends, strict=True)]
    assert counted == [len(line.split()) for line in LINES]

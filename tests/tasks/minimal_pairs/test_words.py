import pytest

from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.tasks.minimal_pairs.words import find_word_ends, word_ends

SENTENCE = "The café's  don't (x) re-enter 1,000!"
WORDS = [
    *("The", "café", "'", "s", "don", "'", "t", "(", "x", ")"),
    *("re", "-", "enter"),
    "1",
    ",",
    "000",
    "!",
]
TEXTS = ["the cat sat on a mat and entered", " ".join(SENTENCE), "how dogs run far"] * 4


def words_of(tokenizer):
    """The text of each word, put together from its tokens' characters."""
    offsets = tokenizer.encode_with_offsets([SENTENCE])
    (ends,) = find_word_ends(tokenizer, [SENTENCE])
    assert ends.tolist() == sorted(ends.tolist()) and len(ends) == len(offsets.ids)
    first = [0, *sorted(set(ends.tolist()))[:-1]]
    spans = [(offsets.starts[a], offsets.ends[ends[a] - 1]) for a in first]
    return [SENTENCE[start:end] for start, end in spans if start < end]  # a space covers nothing


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_words_are_runs_of_letters_and_digits_for_each_kind_of_pieces(kind, lowercase):
    tokenizer = Tokenizer.train(TEXTS, kind=kind, vocabulary_size=70, lowercase=lowercase)
    assert len(tokenizer.encode(SENTENCE)) > len(WORDS), "else no word has several tokens"
    assert words_of(tokenizer) == WORDS


def test_tokens_of_byte_level_pieces_share_a_word_even_within_a_character(byte_pieces):
    assert len(byte_pieces.encode("é")) == 2
    assert words_of(byte_pieces) == WORDS


def test_tokens_of_a_word_level_tokenizer_are_words():
    tokenizer = Tokenizer.train(TEXTS, kind="words", vocabulary_size=30)
    (ends,) = find_word_ends(tokenizer, ["the don't unseen cat"])
    assert ends.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("sentence", "spans", "ends"),
    [
        ("a xy", [(0, 1), (2, 2), (2, 3), (3, 4)], [1, 4, 4, 4]),  # a mark alone begins a word
        ("aéb", [(0, 1), (1, 2), (1, 2), (2, 3)], [4, 4, 4, 4]),  # two bytes of one character
        ("—b", [(0, 1), (0, 1), (1, 2)], [2, 2, 3]),
        ("a--", [(0, 1), (1, 2), (2, 3)], [1, 2, 3]),
        ("ab ab", [(0, 2), (3, 5)], [1, 2]),
        ("我爱你", [(0, 1), (1, 2), (2, 3)], [1, 2, 3]),  # each Chinese character is a word
        ("किताब है", [(0, 1), (1, 2), (2, 5), (6, 8)], [3, 3, 3, 4]),  # a vowel sign joins
        ("cafe\u0301s", [(0, 4), (4, 5), (5, 6)], [3, 3, 3]),
    ],
)
def test_words_follow_from_the_characters_of_tokens(sentence, spans, ends):
    assert word_ends(spans, sentence).tolist() == ends

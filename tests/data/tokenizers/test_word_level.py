import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.word_level import WordLevelTokenizer


@pytest.fixture
def words():
    return WordLevelTokenizer.from_counts(
        {"the": 9, "cat": 5, "sat": 5, "mat": 1, "<pad>": 7}, size=3
    )


def read(text_file, content):
    return WordLevelTokenizer.from_file(text_file(content, "dict.txt"))


def test_word_level_ids_equal_those_of_fairseq(text_file):
    tokenizer = read(text_file, "the 12\n, 9\na b 3\nnaïve 1\n")
    vocabulary = tokenizer.vocabulary
    first, rest = vocabulary.symbols[:4], vocabulary.symbols[4:]
    assert first == ["<s>", "<pad>", "</s>", "<unk>"]
    assert rest == ["the", ",", "a b", "naïve", "<mask>"]
    assert vocabulary.roles == {"pad": 1, "cls": 0, "sep": 2, "mask": 8, "unk": 3}
    assert tokenizer.encode("the ,  naïve\tother") == [4, 5, 7, 3]


def test_repeated_symbol_with_overwrite_wins_and_roles_stay(text_file):
    tokenizer = read(text_file, "a 1\nb 1\na 2 #fairseq:overwrite\n<unk> 1 #fairseq:overwrite\n")
    assert tokenizer.vocabulary.symbols[4:] == ["a", "b", "a", "<unk>", "<mask>"]
    assert tokenizer.encode("a b c <unk>") == [6, 5, 3, 7]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_dictionary_accepts_any_line_ends_and_a_byte_order_mark(text_file, end):
    tokenizer = read(text_file, "\ufeff" + end.join(["the 2", "\u2028 1", "\u00a0 1", " 1"]))
    assert tokenizer.vocabulary.symbols[4:] == ["the", "\u2028", "\u00a0", "", "<mask>"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the 2\ncat\n", "dict.txt:2: expected a symbol, a space and its count, found 'cat'"),
        ("the 2\n\ncat 1\n", "dict.txt:2: expected a symbol, .* found a blank line"),
        ("the two\n", "dict.txt:1: expected a symbol, .* found 'the two'"),
        ("5 \n", "dict.txt:1: expected a symbol"),
        ("5 #fairseq:overwrite\n", "dict.txt:1: expected a symbol"),
        ("<s>\n<pad>\n", "that folder with --tokenizer-from"),
        ("the 2\ncat 1\nthe 1\n", "dict.txt:3: 'the' repeats line 1"),
        ("<pad> 2\n", "'<pad>' repeats one of <s> <pad> </s> <unk>, which come first"),
        (b"the 2\ncaf\xe9 1\n", "dict.txt:2: expected UTF-8, found byte 0xe9 at column 4"),
        (b"the 2\nca\0t 1\n", "dict.txt:2: found a NUL byte"),
        (b"", "dict.txt must hold text, but is empty"),
    ],
)  # fmt: skip
def test_invalid_dictionary_lines_are_named(text_file, content, message):
    with pytest.raises(ToolkitError, match=message):
        read(text_file, content)


def test_from_counts_keeps_the_most_frequent_words_ties_in_order(words):
    assert words.vocabulary.symbols[4:] == ["the", "cat", "sat", "<mask>"]
    rare = WordLevelTokenizer.from_counts({"the": 9, "cat": 1}, size=9, min_count=2)
    assert rare.vocabulary.symbols[4:] == ["the", "<mask>"]


def test_special_tokens_in_the_text_are_unknown_words(words):
    assert words.encode("the <pad> </s> <s> <mask> <unk> cat") == [4, 3, 3, 3, 3, 3, 5]

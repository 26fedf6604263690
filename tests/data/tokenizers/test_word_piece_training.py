import subprocess
import sys

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.tokenizers.wordpiece import SPECIAL, train_word_pieces

pytest.importorskip("tokenizers")


def learned(items, **options):
    return train_word_pieces(items, PreprocessConfig(trainpref="x", **options))


def test_special_symbols_come_first_then_characters_then_joined_pieces():
    found = learned(["aab aab b"] * 3, vocab_size=6, character_coverage=1.0)
    assert found == [*SPECIAL.values(), "a", "b", "##a", "##b", "aa", "aab"][: len(found)]
    assert len(found) == 11


def test_the_size_is_what_was_asked_or_what_the_text_has(random_prose):
    text = random_prose(200).split("\n")
    assert len(learned(text, vocab_size=70)) == 75
    assert len(learned(text, vocab_size=2000)) < 200


def test_rare_characters_are_left_out_by_coverage():
    items = ["ab " * 5000, "\u4e2d"]
    assert "\u4e2d" not in learned(items, vocab_size=20)
    assert "\u4e2d" in learned(items, vocab_size=20, character_coverage=1.0)


def test_another_process_learns_the_same(random_prose):
    code = (
        "import sys; from toolkit.config.commands.preprocess import PreprocessConfig\n"
        "from toolkit.data.tokenizers.wordpiece import train_word_pieces\n"
        "config = PreprocessConfig(trainpref='x', vocab_size=90)\n"
        "print(*train_word_pieces(sys.stdin.read().split('\\n'), config), sep='\\n', end='')"
    )
    text = random_prose(200)
    ran = subprocess.run(
        [sys.executable, "-c", code], input=text, text=True, capture_output=True, check=True
    )
    assert ran.stdout.split("\n") == learned(text.split("\n"), vocab_size=90)


def test_a_vocabulary_smaller_than_its_alphabet_is_refused():
    with pytest.raises(ToolkitError, match="at least twice the 5 characters of the text, but is 9"):
        learned(["a b c d e"], vocab_size=9)

import subprocess
import sys

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.wordpiece import SPECIAL, train_word_pieces

pytest.importorskip("tokenizers")


def train(items, **options):
    return train_word_pieces(items, **{"lowercase": False, "character_coverage": 0.9995, **options})


def test_training_lists_special_tokens_then_characters_then_merged_pieces():
    found = train(["aab aab b"] * 3, vocab_size=6, character_coverage=1.0)
    assert found == [*SPECIAL.values(), "a", "b", "##a", "##b", "aa", "aab"][: len(found)]
    assert len(found) == 11


def test_training_yields_the_requested_size_or_what_the_text_allows(random_prose):
    text = random_prose(200).split("\n")
    assert len(train(text, vocab_size=70)) == 75
    assert len(train(text, vocab_size=2000)) < 200


def test_character_coverage_leaves_out_rare_characters():
    items = ["ab " * 5000, "\u4e2d"]
    assert "\u4e2d" not in train(items, vocab_size=20)
    assert "\u4e2d" in train(items, vocab_size=20, character_coverage=1.0)


def test_training_in_another_process_gives_the_same_vocabulary(random_prose):
    code = (
        "import sys; from toolkit.data.tokenizers.wordpiece import train_word_pieces\n"
        "options = dict(vocab_size=90, character_coverage=0.9995, lowercase=False)\n"
        "print(*train_word_pieces(sys.stdin.read().split('\\n'), **options), sep='\\n', end='')"
    )
    text = random_prose(200)
    ran = subprocess.run(
        [sys.executable, "-c", code], input=text, text=True, capture_output=True, check=True
    )
    assert ran.stdout.split("\n") == train(text.split("\n"), vocab_size=90)


def test_vocabulary_smaller_than_the_alphabet_is_an_error():
    with pytest.raises(ToolkitError, match="at least twice the 5 characters of the text, but is 9"):
        train(["a b c d e"], vocab_size=9)

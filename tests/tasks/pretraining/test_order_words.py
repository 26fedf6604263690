from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.models.heads import PositionHead
from toolkit.models.interface import Encoded, EncoderModel
from toolkit.tasks.pretraining.mpm import (
    HiddenWord,
    MaskedPositionModel,
    check_orderable,
    encode_hidden_words,
    score_places,
)

WORDS = "bob once asked alice to borrow a book"


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text("".join(f"{word} 1\n" for word in WORDS.split()))
    return WordLevelTokenizer.from_file(path)


class Reader(EncoderModel):
    """States that are the tokens themselves, from an encoder of 20 positions."""

    width = 1
    max_positions = 20
    token_embedding, position_embedding = torch.nn.Embedding(1, 1), torch.nn.Embedding(21, 1)

    def forward(self, inputs, selected=None):
        return Encoded(inputs.tokens[..., None].float())


class Oracle(PositionHead):
    """A head that knows the position of each word, counted from 1."""

    def __init__(self, tokenizer, positions):
        super().__init__(Reader(), positions=20)
        self.symbols, self.positions = tokenizer.vocabulary.symbols, positions

    def forward(self, states, table):
        positions = [self.positions[self.symbols[int(i)]] for i in states.flatten()]
        return 5.0 * torch.nn.functional.one_hot(torch.tensor(positions), len(table)).float()


def order(head, tokenizer, sentence, top):
    task = SimpleNamespace(position_head=head, check_objective=lambda *_: None)
    return MaskedPositionModel.order_words(task, Reader(), tokenizer, sentence, top)


def test_words_in_braces_move_to_their_most_probable_positions(tokenizer):
    positions = {word: position for position, word in enumerate(WORDS.split(), 1)}
    sentence = "bob once {borrow} alice to {asked} a book"
    text, masks = order(Oracle(tokenizer, positions), tokenizer, sentence, 2)
    assert text == WORDS
    assert [mask[0][0] for mask in masks] == ["borrow 6", "asked 3"] and len(masks[0]) == 2
    assert sum(probability for _, probability in masks[0]) == pytest.approx(1.0)


def test_all_words_are_ordered_without_braces(tokenizer):
    positions = {word: position for position, word in enumerate(WORDS.split(), 1)}
    sentence = "alice once asked bob"
    text, masks = order(Oracle(tokenizer, positions), tokenizer, sentence, 1)
    assert text == "bob once asked alice" and len(masks) == 4


def test_byte_level_words_keep_the_space_before_them(byte_level):
    assert len(encode_hidden_words(byte_level, "b {c\u00a0a} b")[1]) == 1  # no space ends the word
    ids, hidden = encode_hidden_words(byte_level, "b {c} {ab} b")
    named = "<s> b Ġc Ġ a b Ġb </s>"
    assert [byte_level.vocabulary.symbols[i] for i in ids] == named.split()
    assert hidden == [HiddenWord("c", 2, 1), HiddenWord("ab", 3, 3)]


def test_words_of_several_tokens_move_as_a_whole(byte_level):
    symbols = byte_level.vocabulary.symbols
    positions = dict.fromkeys(symbols, 9) | {"Ġ": 2, "a": 2, "b": 2, "Ġc": 3}
    text, masks = order(Oracle(byte_level, positions), byte_level, "b {c} {ab} b", 1)
    assert text == "b ab c b"
    assert [mask[0][0] for mask in masks] == ["c 3", "ab 2"]
    log_p = torch.randn(4, 4).log_softmax(-1)
    places = score_places(log_p, encode_hidden_words(byte_level, "b {c} {ab} b")[1])
    want = torch.stack([log_p[0, [0, 1]], log_p[1, [0, 1]] + log_p[2, [0, 2]] + log_p[3, [0, 3]]])
    torch.testing.assert_close(places, want.log_softmax(-1))


@pytest.mark.parametrize("text", ["我{爱}北{京}你", "我{爱}北 {京}你"])
def test_braces_hide_words_within_text_without_spaces(text):
    tokenizer = Tokenizer.train(["我爱北京你"] * 9, kind="wordpiece", vocabulary_size=20)
    _, hidden = encode_hidden_words(tokenizer, text)
    assert hidden == [HiddenWord("爱", 2, 1), HiddenWord("京", 4, 1)]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("bob {once} asked", "at least two words to order, but has 1: .* Put braces"),
        ("a " * 9, "at most 8 tokens for this model, but has 11: .* Shorten it"),
    ],
)
def test_order_words_rejects_sentences_that_cannot_be_ordered(tokenizer, sentence, message):
    with pytest.raises(ToolkitError, match=message):
        check_orderable(sentence, *encode_hidden_words(tokenizer, sentence), 8)


@pytest.mark.parametrize("word", ["{once", "asked}", "{}", "{{once}}", "{once}{"])
def test_order_words_rejects_braces_that_enclose_no_single_word(tokenizer, word):
    with pytest.raises(ToolkitError, match=f"must enclose single words, but are '{word}'"):
        encode_hidden_words(tokenizer, f"bob {{once}} {word} asked {{alice}}")

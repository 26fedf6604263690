"""Masks that are filled, and words that are ordered."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.models.heads import PositionHead
from toolkit.models.interface import Encoded, EncoderModel, Inputs
from toolkit.tasks.pretraining.mlm import encode_masked
from toolkit.tasks.pretraining.mpm import (
    MaskedPositionModel,
    check_orderable,
    encode_hidden_words,
    score_places,
)

SHAPE = {"width": 16, "layers": 1, "embedding_width": 8, "max_positions": 6}


@pytest.fixture(scope="module")
def words():
    texts = ["the cat sat .", "the mat", "cats sat", "the cat s mat ."] * 9
    return Tokenizer.train(texts, kind="sentencepiece", vocabulary_size=18)


def build(words, arch="composite_bert_tiny"):
    torch.manual_seed(0)
    learner = build_model(arch, tokenizer=words, task="mlm", **SHAPE).eval()
    for parameter in learner.encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return learner


def test_literal_mask_becomes_the_mask_token_and_adjacent_text_continues_its_word(words):
    mask, space = words.vocabulary.mask, "▁"
    for text, continues in (
        ("the [MASK] s", False),
        ("the [MASK].", True),
        ("[MASK]s [MASK]", True),
    ):
        ids = encode_masked(words, text, None)
        symbols = [words.vocabulary.symbols[i] for i in ids]
        assert ids.count(mask) == text.count("[MASK]") and (ids[0], ids[-1]) == (
            words.vocabulary.cls,
            words.vocabulary.sep,
        )
        assert symbols[ids.index(mask) + 1].startswith(space) != continues


def test_space_before_a_mask_follows_the_tokenizer(byte_level):
    ids = encode_masked(byte_level, "a [MASK] b[MASK].", None)
    named = "<s> a Ġ <mask> Ġb <mask> . </s>"
    assert [byte_level.vocabulary.symbols[i] for i in ids] == named.split()


def test_fill_mask_returns_the_most_probable_tokens_with_softmax_probabilities(words):
    learner = build(words)
    masks, head = learner.fill_mask("[MASK] the [MASK]", top=3), learner.task.head
    ids = torch.tensor([encode_masked(words, "[MASK] the [MASK]", None)])
    states = learner.encoder(Inputs(tokens=ids)).states[ids == words.vocabulary.mask]
    logits = head(states, learner.encoder.token_embedding.weight)
    top = logits.softmax(-1).topk(3)
    for mask, values, indices in zip(masks, top.values, top.indices, strict=True):
        shown = [words.vocabulary.display_symbol(words.vocabulary.symbols[i]) for i in indices]
        assert [token for token, _ in mask] == shown and "▁" not in "".join(shown)
        assert [p for _, p in mask] == pytest.approx(values.tolist(), rel=1e-4)


def test_fill_mask_does_not_depend_on_the_other_sentences(words):
    learner, texts = build(words), ["the [MASK]", "[MASK] the the", "the [MASK] [MASK]."] * 20
    together = learner.fill_mask(texts, top=2)
    for text, masks in zip(texts[:3], together[:3], strict=True):
        for one, other in zip(masks, learner.fill_mask(text, top=2), strict=True):
            assert dict(one) == pytest.approx(dict(other), rel=1e-4)


@pytest.mark.parametrize(
    ("text", "top", "message"),
    [
        ("the cat", 5, r"must contain \[MASK\], but is 'the cat'"),
        ("the the the the [MASK]", 5, r"at most 6 tokens for this model, but has"),
        ("the [MASK]", 0, r"top must be at least 1, but is 0"),
    ],
)
def test_fill_mask_rejects_sentences_that_cannot_be_filled(words, text, top, message):
    with pytest.raises(ToolkitError, match=message):
        build(words, "bert_tiny").fill_mask(text, top=top)


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
    assert hidden == [("c", 2, 1), ("ab", 3, 3)]


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
    assert hidden == [("爱", 2, 1), ("京", 4, 1)]


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

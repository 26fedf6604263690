"""Masked tokens of sentences, filled by the head."""

from __future__ import annotations

import pytest
import torch

from toolkit import ToolkitError, build_model
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs
from toolkit.tasks.pretraining.mlm import encode_masked

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

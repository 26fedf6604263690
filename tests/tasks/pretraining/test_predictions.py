from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import WORD_START, Vocabulary
from toolkit.models.interface import Inputs, Sizes
from toolkit.tasks.pretraining.mlm import encode_masked
from toolkit.tasks.task import EncoderFactory

WORDS = ["cat", "mat", "sat", "the"]
SYMBOLS = [
    *("[CLS]", "[SEP]", "<pad>", "[MASK]", "<unk>"),
    *(WORD_START + word for word in WORDS),
    *(WORD_START, "s", "."),
]


class Words(Tokenizer):
    """A tiny tokenizer: one piece per word, punctuation separate."""

    VOCABULARY = Vocabulary(SYMBOLS, cls=0, sep=1, pad=2, mask=3, unk=4)

    def __init__(self):
        super().__init__(self.VOCABULARY, lowercase=False)

    def encode(self, text: str) -> list[int]:
        ids = []
        for word in text.split():
            known = WORD_START + word in SYMBOLS
            ids += [WORD_START + word] if known else [WORD_START, *word]
        return [SYMBOLS.index(i) if i in SYMBOLS else 4 for i in ids]

    def _encode_after_special(self, text: str, special: int) -> list[int]:
        ids = self.encode(text)
        return ids[1:] if ids and SYMBOLS[ids[0]] == WORD_START else ids


Words.__abstractmethods__ = frozenset()


def build(name: str = "composite_bert_tiny"):
    torch.manual_seed(0)
    entry, task = ARCHITECTURES[name], TASKS["mlm"]
    shape = {"width": 16, "layers": 1, "embedding_width": 8, "max_positions": 6}
    sizes = Sizes(tokens=len(SYMBOLS))
    encoder = entry.factory(dataclasses.replace(entry.config, **shape), sizes).eval()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return encoder, task.factory(task.config, encoder, EncoderFactory(None, sizes))


def tokens(text: str) -> list[str]:
    return [SYMBOLS[i] for i in encode_masked(Words(), text, None)]


def test_literal_mask_becomes_the_mask_token_and_adjacent_text_continues_its_word():
    assert tokens("the [MASK] sat") == ["[CLS]", "▁the", "[MASK]", "▁sat", "[SEP]"]
    assert tokens("the [MASK].") == ["[CLS]", "▁the", "[MASK]", ".", "[SEP]"]
    assert tokens("[MASK]s [MASK]") == ["[CLS]", "[MASK]", "s", "[MASK]", "[SEP]"]


def test_space_before_a_mask_follows_the_tokenizer(byte_level):
    ids = encode_masked(byte_level, "a [MASK] b[MASK].", None)
    named = "<s> a Ġ <mask> Ġb <mask> . </s>"
    assert [byte_level.vocabulary.symbols[i] for i in ids] == named.split()


def test_fill_mask_returns_the_most_probable_tokens_with_softmax_probabilities():
    encoder, task = build()
    (masks,) = task.fill_mask(encoder, Words(), ["[MASK] cat [MASK]"], 3)
    ids = torch.tensor([[0, 3, SYMBOLS.index("▁cat"), 3, 1]])
    states = encoder(Inputs(tokens=ids)).states[0]
    for mask, position in zip(masks, (1, 3), strict=True):
        probabilities = task.head(states[position : position + 1], encoder.token_embedding.weight)[
            0
        ].softmax(-1)
        top = probabilities.topk(3)
        assert [token for token, _ in mask] == [SYMBOLS[i] for i in top.indices.tolist()]
        assert [p for _, p in mask] == pytest.approx(top.values.tolist(), rel=1e-4)


def test_fill_mask_does_not_depend_on_the_other_sentences():
    encoder, task = build()
    texts = ["the [MASK]", "[MASK] sat the cat", "the cat [MASK] [MASK]."] * 20
    together = task.fill_mask(encoder, Words(), texts, 2)
    for text, masks in zip(texts[:3], together[:3], strict=True):
        (alone,) = task.fill_mask(encoder, Words(), [text], 2)
        assert len(masks) == text.count("[MASK]")
        for one, other in zip(masks, alone, strict=True):
            assert dict(one) == pytest.approx(dict(other), rel=1e-4)


@pytest.mark.parametrize(
    ("text", "top", "message"),
    [
        ("the cat", 5, r"must contain \[MASK\], but is 'the cat'"),
        ("the cat sat the [MASK]", 5, r"at most 6 tokens for this model, but has 7"),
        ("the [MASK]", 0, r"top must be at least 1, but is 0"),
    ],
)
def test_fill_mask_rejects_sentences_that_cannot_be_filled(text, top, message):
    encoder, task = build("bert_tiny")
    with pytest.raises(ToolkitError, match=message):
        task.fill_mask(encoder, Words(), [text], top)

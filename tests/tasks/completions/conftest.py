"""Tokenizers and learners for minimal pairs."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session")
def byte_pieces():
    """Byte-level BPE without merges, as GPT-2's with the fewest symbols."""
    tokenizers = pytest.importorskip("tokenizers")
    from toolkit.data.tokenizers.huggingface import HuggingFaceTokenizer

    level = tokenizers.pre_tokenizers.ByteLevel
    symbols = ["<pad>", "<end>", "<mask>", "<unk>", *sorted(level.alphabet()), "Ġt", "Ġth"]
    inner = tokenizers.Tokenizer(
        tokenizers.models.BPE({it: i for i, it in enumerate(symbols)}, [("Ġ", "t"), ("Ġt", "h")])
    )
    inner.pre_tokenizer = level(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    roles = {"pad": 0, "cls": 1, "sep": 1, "mask": 2, "unk": 3}
    return HuggingFaceTokenizer(inner.to_str(), roles)


@pytest.fixture(scope="session")
def wordpieces():
    """BERT's tokenizer with pieces of a few letters."""
    from toolkit.data.tokenizers.tokenizer import Tokenizer

    texts = ["the cat sat on a mat, and saw how dogs run far.", "cats and dogs hug", "a rat ran"]
    return Tokenizer.train(texts * 5, kind="wordpiece", vocabulary_size=45, lowercase=True)


@pytest.fixture
def make_learner(wordpieces):
    """A learner with weights large enough for scores that differ."""
    from toolkit import build_model

    def make(arch, task="mlm", tokenizer=wordpieces, **options):
        torch.manual_seed(3)
        learner = build_model(arch, tokenizer=tokenizer, task=task, **options).eval()
        with torch.no_grad():
            for parameter in learner.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=0.2)
                else:
                    parameter.add_(torch.randn_like(parameter), alpha=0.1)
        return learner

    return make

"""One pre-training update of ConvBERT: this toolkit and Hugging Face Transformers.

    python benchmarks/convbert_speed.py [--length 128] [--tokens 4096] [--rounds 5] [--report]

(needs the extra `hf` and about 16 GB.)

Both have the small size: 12 layers of 256, 4 heads of which 2 attend and 2 convolve 9 tokens,
feed-forward 1024, embeddings 128 wide, vocabulary 30,522. Of each batch 15 % of the places are
predicted; dropout 0.1, clipping at 1, AdamW. Ours is the trainer's own `step` on the task mlm;
theirs is what `transformers.Trainer` does in one with `ConvBertForMaskedLM`, in fp32, which is its
default, and under bf16 autocast. Each lives in a process of its own and they take turns.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from race import Update
from updates import compare, hugging_faces, masked_batch, ours

WORDS = 30_522
REFERENCE = "convbert, bf16"


def toolkits(name: str, precision: str, length: int, tokens: int, **changes: Any) -> Update:
    from toolkit.tasks.build import build_model

    learner = build_model(
        name, vocabulary_size=WORDS, task="mlm", max_positions=max(512, length), **changes
    )
    return ours(learner, masked_batch(WORDS, length, tokens), precision)


def transformers(precision: str, length: int, tokens: int) -> Update:
    from transformers import ConvBertConfig, ConvBertForMaskedLM

    config = ConvBertConfig(
        vocab_size=WORDS,
        hidden_size=256,
        embedding_size=128,
        num_hidden_layers=12,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=max(512, length),
    )
    return hugging_faces(ConvBertForMaskedLM(config), WORDS, length, tokens, precision)


def contestants(length: int, tokens: int) -> dict[str, Any]:
    small = partial(toolkits, "convbert_small", length=length, tokens=tokens)
    return {
        REFERENCE: partial(small, "bf16"),
        "convbert without convolutions, bf16": partial(small, "bf16", conv_type="none"),
        "bert, bf16": partial(toolkits, "bert_small", "bf16", length, tokens),
        "convbert, fp32": partial(small, "fp32"),
        "HF ConvBERT, fp32": partial(transformers, "fp32", length, tokens),
        "HF ConvBERT, bf16 autocast": partial(transformers, "bf16", length, tokens),
    }


if __name__ == "__main__":
    compare("convbert-speed", "ConvBERT's speed", __doc__, contestants, REFERENCE)

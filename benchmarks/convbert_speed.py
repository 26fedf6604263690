"""One pre-training update of ConvBERT: this toolkit and Hugging Face Transformers.

    python benchmarks/convbert_speed.py [--length 128] [--tokens 4096] [--rounds 5] [--report]

(needs the extra `hf` and about 16 GB.)

Both have the small size: 12 layers of width 256, 2 heads of attention and 2 of convolution over 9
tokens, feed-forward width 1024, embeddings of width 128, a vocabulary of 30,522. 15 % of the tokens
are predicted; dropout 0.1, clipping at 1, AdamW. The toolkit's update is the trainer's `step` on
the task mlm. The Transformers update is what `transformers.Trainer` does between two batches with
`ConvBertForMaskedLM`, in fp32 (the default) and under bf16 autocast. Each program runs in its own
process; they alternate.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from harness import Update
from workloads import compare, masked_batch, toolkit_update, transformers_update

WORDS = 30_522
REFERENCE = "convbert, bf16"


def toolkit_model(name: str, precision: str, length: int, tokens: int, **changes: Any) -> Update:
    from toolkit.tasks.build import build_model

    learner = build_model(
        name, vocabulary_size=WORDS, task="mlm", max_positions=max(512, length), **changes
    )
    return toolkit_update(learner, masked_batch(WORDS, length, tokens), precision)


def transformers_model(precision: str, length: int, tokens: int) -> Update:
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
    return transformers_update(ConvBertForMaskedLM(config), WORDS, length, tokens, precision)


def contestants(length: int, tokens: int) -> dict[str, Any]:
    small = partial(toolkit_model, "convbert_small", length=length, tokens=tokens)
    return {
        REFERENCE: partial(small, "bf16"),
        "convbert without convolutions, bf16": partial(small, "bf16", conv_type="none"),
        "bert, bf16": partial(toolkit_model, "bert_small", "bf16", length, tokens),
        "convbert, fp32": partial(small, "fp32"),
        "HF ConvBERT, fp32": partial(transformers_model, "fp32", length, tokens),
        "HF ConvBERT, bf16 autocast": partial(transformers_model, "bf16", length, tokens),
    }


if __name__ == "__main__":
    compare("convbert-speed", "ConvBERT's speed", __doc__, contestants, REFERENCE)

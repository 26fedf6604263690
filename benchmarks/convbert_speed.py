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

import argparse
from functools import partial
from typing import Any

from race import Update, machine, race, report
from updates import hugging_faces, masked_batch, ours, table

WORDS = 30_522
REFERENCE = "convbert, bf16"


def toolkits(name: str, precision: str, length: int, tokens: int, **changes: Any) -> Update:
    from toolkit.training.build import build_model

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=128, help="tokens of a sentence")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a batch")
    parser.add_argument("--rounds", type=int, default=5, help="updates timed for each contestant")
    parser.add_argument("--report", action="store_true", help="write a dated file in reports/")
    asked = parser.parse_args()
    records = race(contestants(asked.length, asked.tokens), asked.rounds)
    found = table(records, f"update at T={asked.length}", REFERENCE, asked.tokens)
    text = f"{machine()}; {asked.tokens:,} tokens a batch\n\n{found}\n"
    print(text)
    if asked.report:
        report(f"convbert-speed-{asked.length}", "ConvBERT's speed", __doc__, text)


if __name__ == "__main__":
    main()

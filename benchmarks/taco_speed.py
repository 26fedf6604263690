"""One pre-training update of TACO, and of Hugging Face's DeBERTa at the same shape.

    python benchmarks/taco_speed.py [--length 128] [--tokens 4096] [--rounds 5] [--report]

(needs the extra `hf` and about 16 GB; at length 512, that much for 2,048 tokens.)

`taco_small` has 12 layers, streams of width 216 + 40 = 256 and 4 + 2 heads. DeBERTa v2, with
content-to-position and position-to-content attention (the maps that TACO mixes), has 12 layers of
width 256 with 4 heads and the same vocabulary of 30,004. 15 % of the tokens are predicted; dropout
0.1, clipping at 1, AdamW. The toolkit's update is the trainer's `step`, with MLM only or with both
objectives, which encodes each sentence twice. The DeBERTa update is what `transformers.Trainer`
does between two batches.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from harness import Update
from workloads import compare, masked_batch, toolkit_update, transformers_update

from toolkit.common.arrays import HIDDEN_POSITION
from toolkit.models.interface import Inputs
from toolkit.tasks.build import build_model
from toolkit.tasks.examples import TargetBatch
from toolkit.tasks.pretraining.mpm import MaskedPositionsBatch

WORDS, WIDTH = 30_004, 256
REFERENCE = "taco mlm, bf16"


def taco(task: str, precision: str, length: int, tokens: int) -> Update:
    learner = build_model("taco_small", vocabulary_size=WORDS, task=task)
    batch = masked_batch(WORDS, length, tokens)
    return toolkit_update(
        learner, add_masked_positions(batch) if task == "mpm" else batch, precision
    )


def add_masked_positions(words: TargetBatch) -> MaskedPositionsBatch:
    """Sentences with masked tokens, then the same sentences with masked positions."""
    tokens, selected, count = words.inputs.tokens, words.selected, words.inputs.tokens.numel()
    order = torch.arange(tokens.shape[1]).expand_as(tokens)
    hidden = order.clone()
    hidden.view(-1)[selected] = HIDDEN_POSITION
    return MaskedPositionsBatch(
        Inputs(torch.cat([tokens, tokens]), positions=torch.cat([order, hidden])),
        torch.cat([selected, selected + count]),
        words.targets,
        order.flatten()[selected],
        {"mlm": float(len(selected)), "mpm": float(len(selected))},
        len(tokens),
        2 * count,
    )


def deberta(precision: str, length: int, tokens: int) -> Update:
    import transformers

    config = transformers.DebertaV2Config(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=12,
        num_attention_heads=4,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=512,
        max_relative_positions=512,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_biased_input=False,
        type_vocab_size=0,
    )
    model = transformers.DebertaV2ForMaskedLM(config)
    return transformers_update(model, WORDS, length, tokens, precision)


def contestants(length: int, tokens: int) -> dict[str, Any]:
    return {
        REFERENCE: partial(taco, "mlm", "bf16", length, tokens),
        "taco mlm + mpm, bf16": partial(taco, "mpm", "bf16", length, tokens),
        "taco mlm, fp32": partial(taco, "mlm", "fp32", length, tokens),
        "HF DeBERTa, fp32": partial(deberta, "fp32", length, tokens),
        "HF DeBERTa, bf16 autocast": partial(deberta, "bf16", length, tokens),
    }


if __name__ == "__main__":
    compare("taco-speed", "TACO's speed", __doc__, contestants, REFERENCE)

"""One pre-training update of TACO, and of Hugging Face's DeBERTa at the same shape.

    python benchmarks/taco_speed.py [--length 128] [--tokens 4096] [--rounds 5] [--report]

(needs the extra `hf` and about 16 GB; at length 512, that much for 2,048 tokens.)

`taco_small` has 12 layers, streams of 216 + 40 = 256 and 4 + 2 heads; DeBERTa (v2, with content to
position and position to content, the model whose maps TACO mixes) has 12 layers of 256 with 4 heads
and the same vocabulary of 30,004. Of each batch 15 % of the places are predicted; dropout 0.1,
clipping at 1, AdamW. Ours is the trainer's own `step` (MLM only, or both objectives, which is two
passes' worth of sentences); theirs is what `transformers.Trainer` does in one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from race import Update
from updates import compare, hugging_faces, masked_batch, ours

from toolkit.common.positions import HIDDEN_POSITION
from toolkit.common.system import keep_freed_memory
from toolkit.models.interface import Inputs
from toolkit.tasks.batch import MaskedBatch
from toolkit.tasks.build import build_model
from toolkit.tasks.pretraining.position_examples import MaskedPositionsBatch

WORDS, WIDTH = 30_004, 256
OURS = "taco mlm, bf16"


def taco(task: str, precision: str, length: int, tokens: int) -> Update:
    keep_freed_memory()
    learner = build_model("taco_small", vocabulary_size=WORDS, task=task)
    batch = masked_batch(WORDS, length, tokens)
    return ours(learner, both(batch) if task == "mpm" else batch, precision)


def both(words: MaskedBatch) -> MaskedPositionsBatch:
    """Sentences with hidden tokens, then the same with hidden positions."""
    tokens, places, count = words.inputs.tokens, words.selected, words.inputs.tokens.numel()
    order = torch.arange(tokens.shape[1]).expand_as(tokens)
    hidden = order.clone()
    hidden.view(-1)[places] = HIDDEN_POSITION
    return MaskedPositionsBatch(
        Inputs(torch.cat([tokens, tokens]), positions=torch.cat([order, hidden])),
        torch.cat([places, places + count]),
        words.targets,
        order.flatten()[places],
        {"mlm": float(len(places)), "mpm": float(len(places))},
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
    return hugging_faces(model, WORDS, length, tokens, precision)


def contestants(length: int, tokens: int) -> dict[str, Any]:
    return {
        OURS: partial(taco, "mlm", "bf16", length, tokens),
        "taco mlm + mpm, bf16": partial(taco, "mpm", "bf16", length, tokens),
        "taco mlm, fp32": partial(taco, "mlm", "fp32", length, tokens),
        "HF DeBERTa, fp32": partial(deberta, "fp32", length, tokens),
        "HF DeBERTa, bf16 autocast": partial(deberta, "bf16", length, tokens),
    }


if __name__ == "__main__":
    compare("taco-speed", "TACO's speed", __doc__, contestants, OURS)

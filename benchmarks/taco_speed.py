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

import argparse
import datetime
import statistics
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from race import Record, Update, machine, race

from toolkit.common.memory import keep_freed_memory

WORDS, WIDTH, RATE = 30_004, 256, 0.15
OURS = "taco mlm, bf16"


def ours(task: str, precision: str, length: int, tokens: int) -> Update:
    """The trainer's update on one micro-batch of the task."""
    from toolkit.common.registry import CRITERIA, LR_SCHEDULERS, OPTIMIZERS
    from toolkit.distributed import World
    from toolkit.optim.precision import Precision
    from toolkit.training.build import build_model
    from toolkit.training.trainer import Trainer

    keep_freed_memory()
    device = torch.device("cpu")
    learner: Any = build_model("taco_small", vocabulary_size=WORDS, task=task)
    criterion, adamw = CRITERIA["cross_entropy"], OPTIMIZERS["adamw"]
    linear = LR_SCHEDULERS["linear"]
    trainer = Trainer(
        learner,
        criterion.build(criterion.config),
        adamw.build(adamw.config, learner.named_parameters()),
        linear.build(linear.config, 1000),
        world=World(device=device),
        precision=Precision(precision, device),
        clip_norm=1.0,
    )
    batch = both(length, tokens) if task == "mpm" else hidden_tokens(length, tokens)
    return lambda: trainer.step([batch], 1000)


def given(length: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, and the selected places as flat indices."""
    torch.manual_seed(0)
    tokens = torch.randint(5, WORDS - 4, (count // length, length))
    return tokens, (torch.rand(count) < RATE).nonzero().flatten()


def hidden_tokens(length: int, count: int) -> Any:
    from toolkit.models.inputs import Inputs
    from toolkit.tasks.batch import MaskedBatch

    tokens, places = given(length, count)
    weights = {"mlm": float(len(places))}
    targets = tokens.flatten()[places]
    return MaskedBatch(Inputs(tokens), places, targets, weights, len(tokens), count)


def both(length: int, count: int) -> Any:
    from toolkit.models.inputs import Inputs
    from toolkit.tasks.masked_positions import MaskedPositionsBatch

    tokens, places = given(length, count)
    order = torch.arange(length).expand_as(tokens)
    hidden = order.clone()
    hidden.view(-1)[places] = -1
    return MaskedPositionsBatch(
        Inputs(torch.cat([tokens, tokens]), positions=torch.cat([order, hidden])),
        torch.cat([places, places + count]),
        tokens.flatten()[places],
        order.flatten()[places],
        {"mlm": float(len(places)), "mpm": float(len(places))},
        len(tokens),
        2 * count,
    )


def hugging_face(precision: str, length: int, count: int) -> Update:
    """What `Trainer.train` does between two batches."""
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
    model = transformers.DebertaV2ForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    tokens, places = given(length, count)
    labels = torch.full_like(tokens, -100)
    labels.view(-1)[places] = tokens.view(-1)[places]
    there = torch.ones_like(tokens)

    def update() -> None:
        half = precision == "bf16"
        with torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
            loss = model(input_ids=tokens, attention_mask=there, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return update


def contestants(length: int, tokens: int) -> dict[str, Any]:
    return {
        OURS: partial(ours, "mlm", "bf16", length, tokens),
        "taco mlm + mpm, bf16": partial(ours, "mpm", "bf16", length, tokens),
        "taco mlm, fp32": partial(ours, "mlm", "fp32", length, tokens),
        "HF DeBERTa, fp32": partial(hugging_face, "fp32", length, tokens),
        "HF DeBERTa, bf16 autocast": partial(hugging_face, "bf16", length, tokens),
    }


def table(records: dict[str, Record], length: int) -> str:
    medians = {name: statistics.median(record.seconds) for name, record in records.items()}
    lines = [
        f"| update at T={length} | median ms | fastest ms | times {OURS} | peak memory MiB |",
        "|---|---|---|---|---|",
    ]
    for name, (seconds, peak) in records.items():
        lines.append(
            f"| {name} | {1e3 * medians[name]:.0f} | {1e3 * min(seconds):.0f} "
            f"| {medians[name] / medians[OURS]:.2f} | {peak:,.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=128, help="tokens of a sentence")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a batch")
    parser.add_argument("--rounds", type=int, default=5, help="updates timed for each contestant")
    parser.add_argument("--report", action="store_true", help="write a dated file in reports/")
    asked = parser.parse_args()
    found = table(race(contestants(asked.length, asked.tokens), asked.rounds), asked.length)
    text = f"{machine()}; {asked.tokens:,} tokens a batch\n\n{found}\n"
    print(text)
    if asked.report:
        day = datetime.date.today().isoformat()
        name = f"{day}-taco-speed-{asked.length}.md"
        path = Path(__file__).parent / "reports" / name
        path.write_text(f"# TACO's speed, {day}\n\n{__doc__.split(chr(10), 2)[2]}\n{text}")
        print(f"Written to {path}.")


if __name__ == "__main__":
    main()

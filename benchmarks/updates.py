"""One update of pre-training, ours and Hugging Face's, and the table of a race between them."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from race import Record, Update, machine, race, report

RATE = 0.15
"""Share of the tokens that are predicted."""


def given(words: int, length: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, and the selected places as flat indices."""
    torch.manual_seed(0)
    tokens = torch.randint(5, words - 4, (count // length, length))
    return tokens, (torch.rand(count) < RATE).nonzero().flatten()


def ours(
    learner: Any, batch: Any, precision: str, *, copies: int = 1, device: str = "cpu"
) -> Update:
    """The trainer's own `step` on one micro-batch or copies of it, clipping at 1, AdamW."""
    from toolkit.common.registry import CRITERIA, LR_SCHEDULERS, OPTIMIZERS
    from toolkit.common.system import keep_freed_memory
    from toolkit.distributed import World
    from toolkit.optim.precision import Precision
    from toolkit.training.trainer import Trainer

    keep_freed_memory()
    place = torch.device(device)
    learner.to(place)
    criterion, adamw = CRITERIA["cross_entropy"], OPTIMIZERS["adamw"]
    linear = LR_SCHEDULERS["linear"]
    trainer = Trainer(
        learner,
        criterion.factory(criterion.config),
        adamw.factory(adamw.config, learner.named_parameters()),
        linear.factory(linear.config, 1000),
        world=World(device=place),
        precision=Precision(precision, place),
        clip_norm=1.0,
    )
    return lambda: trainer.step([batch] * copies, 1000)


def masked_batch(words: int, length: int, count: int) -> Any:
    """For the task mlm."""
    from toolkit.models.interface import Inputs
    from toolkit.tasks.batch import MaskedBatch

    tokens, places = given(words, length, count)
    weights = {"mlm": float(len(places))}
    targets = tokens.flatten()[places]
    return MaskedBatch(Inputs(tokens), places, targets, weights, len(tokens), count)


def hugging_faces(model: Any, words: int, length: int, count: int, precision: str) -> Update:
    """What `transformers.Trainer.train` does between two batches, with logits of every place."""
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=5e-5, fused=True)
    tokens, places = given(words, length, count)
    labels = torch.full_like(tokens, -100)
    labels.view(-1)[places] = tokens.view(-1)[places]
    there = torch.ones_like(tokens)

    def update() -> None:
        half = precision == "bf16"
        with torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
            loss = model(input_ids=tokens, attention_mask=there, labels=labels).global_loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return update


def table(records: Mapping[str, Record], title: str, reference: str, tokens: int) -> str:
    """Milliseconds, and how many times those of the reference."""
    medians = {name: statistics.median(record.seconds) for name, record in records.items()}
    lines = [
        f"| {title} | median ms | fastest ms | tokens/s | times {reference} | peak memory MiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, (seconds, peak) in records.items():
        lines.append(
            f"| {name} | {1e3 * medians[name]:.0f} | {1e3 * min(seconds):.0f} "
            f"| {tokens / medians[name]:,.0f} | {medians[name] / medians[reference]:.2f} "
            f"| {peak:,.0f} |"
        )
    return "\n".join(lines)


def compare(
    name: str,
    title: str,
    description: str,
    contestants: Callable[[int, int], Mapping[str, Any]],
    reference: str,
) -> None:
    """The command of a benchmark: its contestants, by length and tokens, race one update each."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--length", type=int, default=128, help="tokens of a sentence")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a batch")
    parser.add_argument("--rounds", type=int, default=5, help="updates timed for each contestant")
    parser.add_argument("--report", action="store_true", help="write a dated file in reports/")
    asked = parser.parse_args()
    records = race(contestants(asked.length, asked.tokens), asked.rounds)
    found = table(records, f"update at T={asked.length}", reference, asked.tokens)
    text = f"{machine()}; {asked.tokens:,} tokens a batch\n\n{found}\n"
    print(text)
    if asked.report:
        report(f"{name}-{asked.length}", title, description, text)

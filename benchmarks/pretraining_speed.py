"""One pre-training update at the BERT-small shape: this toolkit and Hugging Face Transformers.

    python benchmarks/pretraining_speed.py [--rounds 7] [--report] [--kept-memory]

(needs the extra `hf` and about 12 GB.)

Same shape (12 layers x 256, 4 heads, feed-forward 1024, vocabulary 30,004), same batch of 32 x 128
tokens, 15 % of the places predicted, dropout 0.1, clipping at 1, AdamW fused. Ours is the trainer's
own `step`; theirs is what `transformers.Trainer` does in one: `BertForMaskedLM` with labels (logits
of every place), backward, clip, AdamW, fp32 unless told otherwise.

Every contestant lives in a process of its own, since the way memory is kept belongs to a process
and ours sets it (`toolkit/common/memory.py`); they take turns, one update at a time, while the
others sleep. `--kept-memory` gives the same setting to Hugging Face's, to show its share.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from race import Update, machine, race

from toolkit.common.memory import keep_freed_memory

WORDS, BATCH, LENGTH, WIDTH, MASKED = 30_004, 32, 128, 256, 0.15
NO_KERNELS = {"fixed": False, "dynamic": False}


def tokens_and_places() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    tokens = torch.randint(5, WORDS - 4, (BATCH, LENGTH))
    return tokens, (torch.rand(BATCH * LENGTH) < MASKED).nonzero().flatten()


def ours(arch: str, precision: str, overrides: dict[str, Any]) -> Update:
    """The trainer's update on one micro-batch."""
    from toolkit.common.registry import CRITERIA, LR_SCHEDULERS, OPTIMIZERS
    from toolkit.distributed import World
    from toolkit.models.inputs import Inputs
    from toolkit.optim.precision import Precision
    from toolkit.tasks.batch import MaskedBatch
    from toolkit.training.build import build_model
    from toolkit.training.trainer import Trainer

    keep_freed_memory()
    device = torch.device("cpu")
    learner: Any = build_model(arch, vocabulary_size=WORDS, task="mlm", **overrides)
    criterion, adamw = CRITERIA["cross_entropy"], OPTIMIZERS["adamw"]
    optimizer = adamw.build(adamw.config, learner.named_parameters())
    linear = LR_SCHEDULERS["linear"]
    trainer = Trainer(
        learner,
        criterion.build(criterion.config),
        optimizer,
        linear.build(linear.config, 1000),
        world=World(device=device),
        precision=Precision(precision, device),
        clip_norm=1.0,
    )
    tokens, places = tokens_and_places()
    batch = MaskedBatch(
        Inputs(tokens=tokens),
        places,
        tokens.flatten()[places],
        {"mlm": float(len(places))},
        BATCH,
        tokens.numel(),
    )
    return lambda: trainer.step([batch], 1000)


def hugging_face(precision: str, kept_memory: bool) -> Update:
    """What `Trainer.train` does between two batches."""
    import transformers

    if kept_memory:
        keep_freed_memory()
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=12,
        num_attention_heads=4,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=LENGTH,
    )
    model = transformers.BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    tokens, places = tokens_and_places()
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


USUAL: dict[str, Callable[[], Update]] = {
    "composite, bf16": partial(ours, "composite_bert_small", "bf16", {}),
    "composite, bf16, full embeddings": partial(
        ours, "composite_bert_small", "bf16", {"embedding_width": WIDTH}
    ),
    "no kernels, bf16": partial(ours, "composite_bert_small", "bf16", NO_KERNELS),
    "composite, fp32": partial(ours, "composite_bert_small", "fp32", {}),
    "HF, fp32": partial(hugging_face, "fp32", False),
    "HF, bf16 autocast": partial(hugging_face, "bf16", False),
}
KEPT_MEMORY: dict[str, Callable[[], Update]] = {
    "HF, fp32, kept memory": partial(hugging_face, "fp32", True),
    "HF, bf16 autocast, kept memory": partial(hugging_face, "bf16", True),
}
CONTESTANTS = {**USUAL, **KEPT_MEMORY}
OURS = ("composite, bf16", "no kernels, bf16")


def operations() -> int:
    """Floating-point operations of one of our updates: matrix products, forward and twice back."""
    tokens, selected, inner = BATCH * LENGTH, round(MASKED * BATCH * LENGTH), WIDTH // 2
    attention = tokens * 4 * WIDTH**2 + 2 * tokens * LENGTH * WIDTH
    feed_forward = (11 * tokens + selected) * 2 * WIDTH * 4 * WIDTH  # the last: selected places
    head = selected * (WIDTH * inner + inner * WORDS)
    return 3 * 2 * (12 * attention + feed_forward + tokens * inner * WIDTH + head)


def matrix_rate(rows: int, inner: int, columns: int) -> float:
    """Operations per second of one bf16 product, the best of a few."""
    a = torch.randn(rows, inner).bfloat16()
    b = torch.randn(inner, columns).bfloat16()
    best = float("inf")
    for _ in range(12):
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    return 2 * rows * inner * columns / best


def table(times: dict[str, list[float]]) -> str:
    medians = {name: statistics.median(found) for name, found in times.items()}
    reference = medians["composite, bf16"]
    lines = [
        "| update | median ms | fastest ms | tokens/s | composite bf16 is faster by |",
        "|---|---|---|---|---|",
    ]
    for name, median in medians.items():
        lines.append(
            f"| {name} | {1e3 * median:.0f} | {1e3 * min(times[name]):.0f} "
            f"| {BATCH * LENGTH / median:,.0f} | {median / reference:.2f} |"
        )
    return "\n".join(lines)


def summary(times: dict[str, list[float]]) -> str:
    keep_freed_memory()
    shapes = [(BATCH * LENGTH, WIDTH, 4 * WIDTH), (BATCH * LENGTH, 4 * WIDTH, WIDTH), (4096,) * 3]
    rates = [matrix_rate(*shape) for shape in shapes]
    reached = operations() / statistics.median(times["composite, bf16"])
    ratio = statistics.median(
        a / b for a, b in zip(times["composite, bf16"], times["no kernels, bf16"], strict=True)
    )
    return (
        f"{table(times)}\n\n"
        f"Composite costs {ratio:.2f} times the same network without kernels (median of the "
        f"rounds' ratios).\n"
        f"{operations() / 1e9:.0f} GFLOP an update at {reached / 1e9:.0f} GFLOP/s: "
        f"{reached / max(rates):.0%} of this machine's best bf16 product "
        f"({', '.join(f'{rate / 1e9:.0f}' for rate in rates)} GFLOP/s at "
        f"{', '.join(' x '.join(map(str, shape)) for shape in shapes)}).\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="updates timed for each contestant")
    parser.add_argument("--report", action="store_true", help="write a dated file in reports/")
    parser.add_argument("--kept-memory", action="store_true", help="give our setting to HF, too")
    asked = parser.parse_args()
    names = [*OURS, *KEPT_MEMORY] if asked.kept_memory else list(USUAL)
    records = race({name: CONTESTANTS[name] for name in names}, asked.rounds)
    times = {name: record.seconds for name, record in records.items()}
    text = f"{machine()}\n\n{summary(times)}"
    print(text)
    if asked.report:
        day = datetime.date.today().isoformat()
        path = (
            Path(__file__).parent
            / "reports"
            / f"{day}-pretraining-speed{'-kept-memory' * asked.kept_memory}.md"
        )
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# Pre-training speed, {day}\n\n{__doc__.split(chr(10), 2)[2]}\n{text}")
        print(f"Written to {path}.")


if __name__ == "__main__":
    main()

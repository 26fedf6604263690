"""One pre-training update at the BERT-small shape: this toolkit and Hugging Face Transformers.

    python benchmarks/pretraining_speed.py [--rounds 7] [--report] [--kept-memory]

(needs the extra `hf` and about 12 GB.)

Same shape (12 layers x 256, 4 heads, feed-forward 1024, vocabulary 30,004), same batch of 32 x 128
tokens, 15 % of the places predicted, dropout 0.1, clipping at 1, AdamW fused. Ours is the trainer's
own `step`; theirs is what `transformers.Trainer` does in one: `BertForMaskedLM` with labels (logits
of every place), backward, clip, AdamW, fp32 unless told otherwise.

Every contestant lives in a process of its own, since the way memory is kept belongs to a process
and ours sets it (`toolkit/common/system.py`); they take turns, one update at a time, while the
others sleep. `--kept-memory` gives the same setting to Hugging Face's, to show its share.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from race import Record, Update, machine, race, report
from updates import RATE, hugging_faces, masked_batch, ours, table

from toolkit.common.system import keep_freed_memory
from toolkit.tasks.build import build_model

WORDS, BATCH, LENGTH, WIDTH = 30_004, 32, 128, 256
NO_KERNELS = {"fixed": False, "dynamic": False}


def composite(precision: str, overrides: dict[str, Any]) -> Update:
    keep_freed_memory()
    learner = build_model("composite_bert_small", vocabulary_size=WORDS, task="mlm", **overrides)
    return ours(learner, masked_batch(WORDS, LENGTH, BATCH * LENGTH), precision)


def bert(precision: str, kept_memory: bool) -> Update:
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
    model = transformers.BertForMaskedLM(config)
    return hugging_faces(model, WORDS, LENGTH, BATCH * LENGTH, precision)


USUAL: dict[str, Callable[[], Update]] = {
    "composite, bf16": partial(composite, "bf16", {}),
    "composite, bf16, full embeddings": partial(composite, "bf16", {"embedding_width": WIDTH}),
    "no kernels, bf16": partial(composite, "bf16", NO_KERNELS),
    "composite, fp32": partial(composite, "fp32", {}),
    "HF, fp32": partial(bert, "fp32", False),
    "HF, bf16 autocast": partial(bert, "bf16", False),
}
KEPT_MEMORY: dict[str, Callable[[], Update]] = {
    "HF, fp32, kept memory": partial(bert, "fp32", True),
    "HF, bf16 autocast, kept memory": partial(bert, "bf16", True),
}
CONTESTANTS = {**USUAL, **KEPT_MEMORY}
OURS = ("composite, bf16", "no kernels, bf16")


def operations() -> int:
    """Floating-point operations of one of our updates: matrix products, forward and twice back."""
    tokens, selected, inner = BATCH * LENGTH, round(RATE * BATCH * LENGTH), WIDTH // 2
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


def summary(records: dict[str, Record]) -> str:
    keep_freed_memory()
    times = {name: record.seconds for name, record in records.items()}
    shapes = [(BATCH * LENGTH, WIDTH, 4 * WIDTH), (BATCH * LENGTH, 4 * WIDTH, WIDTH), (4096,) * 3]
    rates = [matrix_rate(*shape) for shape in shapes]
    reached = operations() / statistics.median(times["composite, bf16"])
    ratio = statistics.median(
        a / b for a, b in zip(times["composite, bf16"], times["no kernels, bf16"], strict=True)
    )
    return (
        f"{table(records, 'update', OURS[0], BATCH * LENGTH)}\n\n"
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
    text = f"{machine()}\n\n{summary(records)}"
    print(text)
    if asked.report:
        report(
            f"pretraining-speed{'-kept-memory' * asked.kept_memory}",
            "Pre-training speed",
            __doc__,
            text,
        )


if __name__ == "__main__":
    main()

"""One pre-training update at the size of BERT small: this toolkit and Hugging Face Transformers.

    python benchmarks/pretraining_speed.py [--rounds 7] [--report] [--kept-memory | --against DIR]

(needs the extra `hf` and about 12 GB.)

Both have 12 layers of width 256, 4 heads, feed-forward width 1024 and a vocabulary of 30,004, and
train on the same batch of 32 x 128 tokens: 15 % of the tokens predicted, dropout 0.1, clipping at
1, fused AdamW. The toolkit's update is the trainer's `step`. The Transformers update is what
`transformers.Trainer` does between two batches: `BertForMaskedLM` with labels (logits of all
positions), backward, clipping, AdamW, in fp32 by default.

Each program runs in its own process, since memory settings belong to a process and toolkit-train
changes them (`toolkit/common/system.py`). The programs alternate, one update at a time.
`--kept-memory` gives the same memory setting to Transformers, to show its share. `--against` times
this checkout of the toolkit and another one, such as `git worktree add DIR COMMIT` makes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import (
    Record,
    Update,
    compare_rounds,
    machine,
    parser,
    publish,
    race,
    seconds,
    table,
)
from workloads import RATE, masked_batch, toolkit_update, transformers_update, update_table

from toolkit.common.system import keep_freed_memory
from toolkit.tasks.build import build_model

WORDS, BATCH, LENGTH, WIDTH = 30_004, 32, 128, 256
NO_KERNELS = {"fixed": False, "dynamic": False}


def composite(precision: str, overrides: dict[str, Any]) -> Update:
    learner = build_model("composite_bert_small", vocabulary_size=WORDS, task="mlm", **overrides)
    return toolkit_update(learner, masked_batch(WORDS, LENGTH, BATCH * LENGTH), precision)


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
    return transformers_update(model, WORDS, LENGTH, BATCH * LENGTH, precision)


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
TOOLKIT = ("composite, bf16", "no kernels, bf16")


def count_operations() -> int:
    """Operations of a toolkit update: matrix products, forward and twice backward."""
    tokens, selected, inner = BATCH * LENGTH, round(RATE * BATCH * LENGTH), WIDTH // 2
    attention = tokens * 4 * WIDTH**2 + 2 * tokens * LENGTH * WIDTH
    feed_forward = (11 * tokens + selected) * 2 * WIDTH * 4 * WIDTH  # the last: selected positions
    head = selected * (WIDTH * inner + inner * WORDS)
    return 3 * 2 * (12 * attention + feed_forward + tokens * inner * WIDTH + head)


def measure_matrix_rate(rows: int, inner: int, columns: int) -> float:
    """Operations per second of one bf16 product, the best of a few."""
    a = torch.randn(rows, inner).bfloat16()
    b = torch.randn(inner, columns).bfloat16()
    return 2 * rows * inner * columns / min(seconds(lambda: a @ b) for _ in range(12))


def summary(records: dict[str, Record]) -> str:
    keep_freed_memory()
    shapes = [(BATCH * LENGTH, WIDTH, 4 * WIDTH), (BATCH * LENGTH, 4 * WIDTH, WIDTH), (4096,) * 3]
    rates = [measure_matrix_rate(*shape) for shape in shapes]
    composite, plain = (records[name] for name in TOOLKIT)
    rate = count_operations() / composite.median
    ratio = compare_rounds(composite.seconds, plain.seconds)
    return (
        f"{update_table(records, 'update', TOOLKIT[0], BATCH * LENGTH)}\n\n"
        f"Composite costs {ratio:.2f} times the same network without kernels (median of the "
        f"rounds' ratios).\n"
        f"{count_operations() / 1e9:.0f} GFLOP per update at {rate / 1e9:.0f} GFLOP/s: "
        f"{rate / max(rates):.0%} of this machine's best bf16 product "
        f"({', '.join(f'{it / 1e9:.0f}' for it in rates)} GFLOP/s at "
        f"{', '.join(' x '.join(map(str, shape)) for shape in shapes)}).\n"
    )


def compare_checkouts(other: Path, rounds: int) -> str:
    """Times of this checkout and another one."""
    ours = {name: make for name, make in USUAL.items() if not name.startswith("HF")}
    theirs = {f"{name}, {other.name}": make for name, make in ours.items()}
    records = race({**ours, **theirs}, rounds, checkouts=dict.fromkeys(theirs, other))
    rows = []
    for name, before in zip(ours, theirs, strict=True):
        ratio = compare_rounds(records[name].seconds, records[before].seconds)
        times = (f"{1e3 * records[it].median:.0f}" for it in (before, name))
        rows.append([name, *times, f"{ratio:.3f}"])
    head = ["update", f"{other.name}, median ms", "this checkout", "median of the rounds' ratios"]
    return table(head, rows)


def main() -> None:
    options = parser(__doc__, rounds=7)
    options.add_argument("--kept-memory", action="store_true", help="same setting for Transformers")
    options.add_argument("--against", type=Path, metavar="DIR", help="another checkout to time")
    args = options.parse_args()
    if args.against:
        text = f"{machine()}\n\n{compare_checkouts(args.against.resolve(), args.rounds)}\n"
        publish(text, args.report, "Pre-training speed of two versions", __doc__, "-against")
        return
    names = [*TOOLKIT, *KEPT_MEMORY] if args.kept_memory else list(USUAL)
    records = race({name: CONTESTANTS[name] for name in names}, args.rounds)
    text = f"{machine()}\n\n{summary(records)}"
    publish(text, args.report, "Pre-training speed", __doc__, "-kept-memory" * args.kept_memory)


if __name__ == "__main__":
    main()

"""Time and peak memory of the loss of a tied output layer, with and without stored logits.

    python benchmarks/loss_memory.py [--rows 4096] [--width 512] [--draw] [--report]

`toolkit/criteria/cross_entropy.py` computes logits in chunks and keeps none of them. Both
programs run forward and backward under bf16 autocast, each in its own process, in
alternation; milliseconds of processor time. "product" is one product of the states with the table,
the machine's own measure. With `--draw` they also draw a token per row, as the generator of task
rtd does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from harness import Record, Update, machine, parser, publish, race, table
from torch.nn import functional as F

from toolkit.criteria import ProjectedClasses
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.tasks.pretraining.rtd import sample_tokens

VOCABULARIES = (30_004, 128_000)


def make(program: str, rows: int, classes: int, width: int, draw: bool) -> Update:
    torch.manual_seed(0)
    states = torch.randn(rows, width, requires_grad=True)
    embedding = (0.05 * torch.randn(classes, width)).requires_grad_()
    targets, draws = torch.randint(classes, (rows,)), torch.rand(rows)
    criterion = CrossEntropy(CrossEntropyConfig())

    def update() -> None:
        states.grad = embedding.grad = None
        with torch.autocast("cpu", torch.bfloat16):
            prediction = ProjectedClasses(states, embedding, None, targets)
            scores = prediction.to_classes() if program == "stored logits" else prediction
            if draw:
                sample_tokens(scores, draws)
            loss = criterion({"x": scores})["x"]
        loss.backward()

    @torch.no_grad()
    def product() -> None:
        F.linear(states.bfloat16(), embedding.bfloat16())

    def nothing() -> None:
        pass

    others: dict[str, Update] = {"product": product, "tensors alone": nothing}
    return others.get(program, update)


def measure(rows: int, classes: int, width: int, draw: bool, rounds: int) -> dict[str, Record]:
    names = ("stored logits", "projected", "product", "tensors alone")
    programs: dict[str, Callable[[], Update]] = {
        name: partial(make, name, rows, classes, width, draw) for name in names
    }
    return race(programs, rounds, warm_up=2, clock=time.process_time)


def main() -> None:
    options = parser(__doc__, rounds=9)
    options.add_argument("--rows", type=int, default=4096, help="predictions of a batch")
    options.add_argument("--width", type=int, default=512, help="width of the table")
    options.add_argument("--draw", action="store_true", help="draw a token per row, as task rtd")
    args = options.parse_args()
    lines = []
    for classes in VOCABULARIES:
        found = measure(args.rows, classes, args.width, args.draw, args.rounds)
        product, base = found["product"].median, found["tensors alone"].peak_mib
        for name in ("stored logits", "projected"):
            record = found[name]
            ms, share = 1e3 * record.median, record.median / product
            memory = f"{record.peak_mib - base:,.0f}"
            lines.append([f"{classes:,}", name, f"{ms:,.0f}", f"{share:.1f}", memory])
    head = ["classes", "program", "ms", "times one product", "MiB beyond the tensors"]
    text = f"{args.rows:,} rows of width {args.width}, bf16; {machine()}\n\n{table(head, lines)}"
    suffix = "-with-draw" if args.draw else ""
    publish(text, args.report, "Loss without stored logits", __doc__, suffix)


if __name__ == "__main__":
    main()

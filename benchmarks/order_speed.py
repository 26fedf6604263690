"""One pre-training update of each encoder of examples/positions.

    OMP_NUM_THREADS=1 python benchmarks/order_speed.py [--rounds 15] [--report]

The encoders have 4 layers of width 192 and a vocabulary of 8,004. A batch has 32 pairs of segments
with 128 tokens, of which 15 % are predicted; precision is bf16, the optimizer Muon. An update is
the trainer's `step`; with `taco` it reads the batch twice, with masked words and with masked
positions. Programs alternate in one process. The column `times none` has the median over the rounds
of the ratio to `none` in the same round; `share` compares with the time that the products of the
update, those of Muon included, would take as one large product of this machine. With one thread the
clock is the processor time, which hardly depends on other processes.
"""

from __future__ import annotations

import runpy
import statistics
from pathlib import Path

import torch
from harness import (
    Update,
    alternate_rounds,
    compare_rounds,
    machine,
    parser,
    publish,
    steady_clock,
    table,
)
from taco_speed import add_masked_positions
from workloads import PRODUCT_FLOPS, count_flops, large_product, make_trainer, masked_batch

from toolkit.common.registry import ARCHITECTURES
from toolkit.tasks.build import build_model

VARIANTS = Path(__file__).parents[1] / "examples/positions/variants.py"
PREFIX, REFERENCE = "order_", "order_none"
WORDS, LENGTH, TOKENS, WARM_UP = 8_004, 128, 4096, 2


def make_update(name: str) -> Update:
    torch.manual_seed(0)
    task = "mpm" if name == "order_taco" else "mlm"
    learner = build_model(name, vocabulary_size=WORDS, task=task)
    batch = masked_batch(WORDS, LENGTH, TOKENS)
    trainer = make_trainer(learner, "bf16", optimizer="muon", clip_norm=1.0)
    batches = [add_masked_positions(batch) if task == "mpm" else batch]
    return lambda: trainer.step(batches, 1000)


def measure(rounds: int) -> list[list[str]]:
    """A row for each encoder."""
    names = [name for name in ARCHITECTURES.names() if name.startswith(PREFIX)]
    programs = {name: make_update(name) for name in names}
    flops = {name: count_flops(program) for name, program in programs.items()}
    programs["product"] = large_product("bf16")
    times = alternate_rounds(programs, rounds, WARM_UP, steady_clock())
    best = PRODUCT_FLOPS / statistics.median(times["product"])
    rows = []
    for name in names:
        median = statistics.median(times[name])
        rows.append(
            [
                name.removeprefix(PREFIX),
                f"{1e3 * median:.0f}",
                f"{TOKENS / median:,.0f}",
                f"{compare_rounds(times[name], times[REFERENCE]):.2f}",
                f"{flops[name] / best / median:.0%}",
            ]
        )
    return rows


def main() -> None:
    options = parser(__doc__, rounds=15)
    args = options.parse_args()
    runpy.run_path(str(VARIANTS))  # registers the architectures
    head = ["positions", "update, ms", "tokens of the text/s", "times none", "share"]
    text = f"{machine()}; {TOKENS:,} tokens per batch\n\n{table(head, measure(args.rounds))}\n"
    publish(text, args.report, "Speed of the encoders of examples/positions", __doc__)


if __name__ == "__main__":
    main()

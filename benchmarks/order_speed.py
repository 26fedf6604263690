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
import time
from pathlib import Path

import torch
from harness import Update, machine, parser, publish, seconds, table
from taco_speed import add_masked_positions
from workloads import PRODUCT_FLOPS, count_flops, large_product, make_trainer, masked_batch

from toolkit.tasks.build import build_model

VARIANTS = Path(__file__).parents[1] / "examples/positions/variants.py"
NAMES = (
    *("none", "learned", "sinusoidal", "alibi", "rope", "t5", "shaw", "xl", "deberta"),
    *("fixed", "composite", "depthwise", "convbert", "taco_words", "taco"),
)
WORDS, LENGTH, TOKENS, WARM_UP = 8_004, 128, 4096, 2


def make_update(name: str) -> Update:
    torch.manual_seed(0)
    task = "mpm" if name == "taco" else "mlm"
    learner = build_model(f"order_{name}", vocabulary_size=WORDS, task=task)
    batch = masked_batch(WORDS, LENGTH, TOKENS)
    trainer = make_trainer(learner, "bf16", optimizer="muon", clip_norm=1.0)
    batches = [add_masked_positions(batch) if task == "mpm" else batch]
    return lambda: trainer.step(batches, 1000)


def measure(rounds: int) -> list[list[str]]:
    """A row for each encoder."""
    programs = {name: make_update(name) for name in NAMES}
    flops = {name: count_flops(program) for name, program in programs.items()}
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in (*NAMES, "product")}
    for _ in range(WARM_UP + rounds):
        for name, program in {**programs, "product": large_product("bf16")}.items():
            times[name].append(seconds(program, clock))
    timed = {name: values[WARM_UP:] for name, values in times.items()}
    best = PRODUCT_FLOPS / statistics.median(timed["product"])
    rows = []
    for name in NAMES:
        median = statistics.median(timed[name])
        ratios = [a / b for a, b in zip(timed[name], timed["none"], strict=True)]
        rows.append(
            [
                name,
                f"{1e3 * median:.0f}",
                f"{TOKENS / median:,.0f}",
                f"{statistics.median(ratios):.2f}",
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

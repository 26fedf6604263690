"""Replaced token detection at the size of ELECTRA small: tokens per second, memory and hours.

    python benchmarks/rtd_speed.py [--rounds 3] [--micro-batch 32] [--device cpu] [--report]

(On a CPU about 8 GB and 5 minutes. `--device cuda --micro-batch 128` measures a GPU.)

12 layers of width 256 over embeddings of width 128, a generator of a quarter of that, a vocabulary
of 30,522, 512 positions. An update has 128 sentences of 128 tokens, 19 tokens masked in each (the
paper's Table 5). It is the trainer's `step`: both networks, clipping at 1, AdamW. Each program runs
in its own process; they alternate.

Hours are the seconds of an update x 1,000,000. The hours of an H200 are computed, not measured: the
operations of an update (torch's formulas for the forward pass, times three for both passes, Kaplan
et al. 2020) divided by fractions of 989e12 per second, the data sheet's dense bf16 rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from harness import (
    WARM_UP,
    Record,
    Update,
    device_clock,
    machine,
    parser,
    publish,
    race,
    seconds,
    table,
)
from workloads import toolkit_update

from toolkit.tasks.build import build_model

WORDS, LENGTH, SENTENCES, SELECTED = 30_522, 128, 128, 19
UPDATES = 1_000_000
H200 = 989e12
FRACTIONS = (0.1, 0.2, 0.4)
"""Fractions of the peak rate: typical of small models, of efficient ones and of large ones."""
MODELS = {
    "ELECTRA small": ("bert_small", "rtd", {"max_positions": 512}),
    "ConvBERT small": ("convbert_small", "rtd", {}),
    "the same net, MLM": ("bert_small", "mlm", {"max_positions": 512}),
}


def make_batch(task: str, sentences: int) -> Any:
    from toolkit.models.interface import Inputs
    from toolkit.tasks.examples import TargetBatch
    from toolkit.tasks.pretraining.rtd import ReplacedTokensBatch

    torch.manual_seed(0)
    count = sentences * LENGTH
    tokens = torch.randint(5, WORDS - 4, (sentences, LENGTH))
    selected_columns = torch.rand(sentences, LENGTH).argsort(1)[:, :SELECTED]
    selected = (selected_columns + LENGTH * torch.arange(sentences)[:, None]).flatten()
    targets = tokens.flatten()[selected]
    shape = {"inputs": Inputs(tokens), "selected": selected, "targets": targets}
    host = {"sentences": sentences, "tokens": count}
    weights = {"mlm": float(len(selected))}
    if task == "mlm":
        return TargetBatch(**shape, weights=weights, **host)
    draws, weights = torch.rand(len(selected)), {**weights, "rtd": float(count)}
    return ReplacedTokensBatch(**shape, draws=draws, weights=weights, **host)


def build_learner(model: str) -> Any:
    arch, task, overrides = MODELS[model]
    return build_model(arch, vocabulary_size=WORDS, task=task, **overrides)


def make_update(model: str, precision: str, sentences: int, device: str) -> Update:
    batch = make_batch(MODELS[model][1], sentences)
    copies = SENTENCES // sentences
    return toolkit_update(build_learner(model), batch, precision, copies=copies, device=device)


def race_on_gpu(contestants: Mapping[str, Callable[[], Update]], rounds: int) -> dict[str, Record]:
    """Time programs one after the other, as they share the GPU's memory."""
    records = {}
    for name, make in contestants.items():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        update = make()
        times = [seconds(update, device_clock) for _ in range(WARM_UP + rounds)]
        peak = torch.cuda.max_memory_allocated() / 2**20
        records[name] = Record(times[WARM_UP:], peak)
    return records


def hours_table(records: Mapping[str, Record]) -> str:
    head = ["update of 128 x 128 tokens", "median s", "fastest s", "tokens/s"]
    rows = [
        [
            name,
            f"{record.median:.3f}",
            f"{min(record.seconds):.3f}",
            f"{SENTENCES * LENGTH / record.median:,.0f}",
            f"{record.median * UPDATES / 3600:,.0f}",
            f"{record.peak_mib:,.0f}",
        ]
        for name, record in records.items()
    ]
    return table([*head, "hours for 1M updates", "peak memory MiB"], rows)


def operations_table() -> str:
    """Operations of all updates, and the hours that an H200 needs for them."""
    from toolkit.training.callbacks.logging import update_flops

    rows = []
    for model, (_, task, _) in MODELS.items():
        batch, copies = make_batch(task, 8), SENTENCES // 8
        total = update_flops(build_learner(model), batch, torch.device("cpu")) * copies * UPDATES
        hours = [f"{total / (H200 * fraction) / 3600:,.1f}" for fraction in FRACTIONS]
        rows.append([model, f"{total:.2e}", *hours])
    heads = [f"hours at {fraction:.0%}" for fraction in FRACTIONS]
    return table(["1M updates", "operations", *heads], rows)


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--micro-batch", type=int, default=32, help="sentences per micro-batch")
    options.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    args = options.parse_args()
    contestants = {
        f"{model}, {precision}": partial(
            make_update, model, precision, args.micro_batch, args.device
        )
        for model, precision in [(m, "bf16") for m in MODELS] + [("ELECTRA small", "fp32")]
    }
    records = (race if args.device == "cpu" else race_on_gpu)(contestants, args.rounds)
    text = (
        f"{machine(args.device)}; micro-batches of {args.micro_batch} sentences\n\n"
        f"{hours_table(records)}\n\nComputed for an H200:\n\n{operations_table()}\n"
    )
    publish(text, args.report, "Replaced token detection", __doc__, f"-{args.device}")


if __name__ == "__main__":
    main()

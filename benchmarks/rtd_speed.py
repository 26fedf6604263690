"""Replaced token detection at the size of ELECTRA small: tokens a second, memory, and how long.

    python benchmarks/rtd_speed.py [--rounds 3] [--micro-batch 32] [--device cpu] [--report]

(On a CPU about 8 GB and 5 minutes. `--device cuda --micro-batch 128` measures a GPU.)

12 layers of width 256 over embeddings of 128, the generator at a quarter, 30,522 symbols, 512
positions; 128 sentences of 128 tokens make an update, of which 19 places each are filled in (the
paper's Table 5). An update is the trainer's own `step`: both nets, clipping at 1, AdamW. Every
contestant lives in a process of its own, and they take turns.

The hours are seconds of an update x 1,000,000. Those of an H200 are arithmetic where none is
measured: operations of an update, counted by torch's formulas for the forward pass and three times
that for both (Kaplan et al. 2020), over 989e12 a second, the data sheet's dense bf16 rate, at the
shares of it that are named.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from race import WARM_UP, Record, Update, machine, race, report
from updates import ours

from toolkit.tasks.build import build_model

WORDS, LENGTH, SENTENCES, PLACES = 30_522, 128, 128, 19
UPDATES = 1_000_000
H200 = 989e12
SHARES = (0.1, 0.2, 0.4)
"""Of the peak rate: what small models, what good ones and what large ones reach."""
MODELS = {
    "ELECTRA small": ("bert_small", "rtd", {"max_positions": 512}),
    "ConvBERT small": ("convbert_small", "rtd", {}),
    "the same net, MLM": ("bert_small", "mlm", {"max_positions": 512}),
}


def batch_of(task: str, sentences: int) -> Any:
    from toolkit.models.interface import Inputs
    from toolkit.tasks.batch import MaskedBatch
    from toolkit.tasks.pretraining.rtd_examples import ReplacedTokensBatch

    torch.manual_seed(0)
    count = sentences * LENGTH
    tokens = torch.randint(5, WORDS - 4, (sentences, LENGTH))
    chosen = torch.rand(sentences, LENGTH).argsort(1)[:, :PLACES]
    places = (chosen + LENGTH * torch.arange(sentences)[:, None]).flatten()
    targets = tokens.flatten()[places]
    shape = {"inputs": Inputs(tokens), "places": places, "targets": targets}
    host = {"sentences": sentences, "tokens": count}
    weights = {"mlm": float(len(places))}
    if task == "mlm":
        return MaskedBatch(**shape, weights=weights, **host)
    draws, weights = torch.rand(len(places)), {**weights, "rtd": float(count)}
    return ReplacedTokensBatch(**shape, draws=draws, weights=weights, **host)


def learner_of(model: str) -> Any:
    arch, task, overrides = MODELS[model]
    return build_model(arch, vocabulary_size=WORDS, task=task, **overrides)


def update_of(model: str, precision: str, sentences: int, device: str) -> Update:
    batch = batch_of(MODELS[model][1], sentences)
    update = ours(learner_of(model), batch, precision, copies=SENTENCES // sentences, device=device)

    def waited() -> None:
        update()
        if device == "cuda":
            torch.cuda.synchronize()

    return waited


def on_gpu(contestants: Mapping[str, Callable[[], Update]], rounds: int) -> dict[str, Record]:
    """One after the other: the GPU's memory is what counts."""
    records = {}
    for name, make in contestants.items():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        update, seconds = make(), []
        for _ in range(WARM_UP + rounds):
            begun = time.perf_counter()
            update()
            seconds.append(time.perf_counter() - begun)
        peak = torch.cuda.max_memory_allocated() / 2**20
        records[name] = Record(seconds[WARM_UP:], peak)
    return records


def table(records: Mapping[str, Record]) -> str:
    lines = [
        "| an update of 128 x 128 tokens | median s | fastest s | tokens/s | hours for 1M updates "
        "| peak memory MiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, (seconds, peak) in records.items():
        median = statistics.median(seconds)
        lines.append(
            f"| {name} | {median:.3f} | {min(seconds):.3f} | {SENTENCES * LENGTH / median:,.0f} "
            f"| {median * UPDATES / 3600:,.0f} | {peak:,.0f} |"
        )
    return "\n".join(lines)


def arithmetic() -> str:
    """Operations of all updates, and the hours they take an H200."""
    from toolkit.training.callbacks.throughput import update_flops

    heads = " | ".join(f"hours at {share:.0%}" for share in SHARES)
    lines = [f"| 1M updates | operations | {heads} |", "|---|---|" + "---|" * len(SHARES)]
    for model, (_, task, _) in MODELS.items():
        batch, copies = batch_of(task, 8), SENTENCES // 8
        total = update_flops(learner_of(model), batch, torch.device("cpu")) * copies * UPDATES
        hours = " | ".join(f"{total / (H200 * share) / 3600:,.1f}" for share in SHARES)
        lines.append(f"| {model} | {total:.2e} | {hours} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="updates timed for each contestant")
    parser.add_argument("--micro-batch", type=int, default=32, help="sentences computed at a time")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--report", action="store_true", help="write a dated file in reports/")
    asked = parser.parse_args()
    contestants = {
        f"{model}, {precision}": partial(
            update_of, model, precision, asked.micro_batch, asked.device
        )
        for model, precision in [(m, "bf16") for m in MODELS] + [("ELECTRA small", "fp32")]
    }
    found = (race if asked.device == "cpu" else on_gpu)(contestants, asked.rounds)
    where = torch.cuda.get_device_name() if asked.device == "cuda" else machine()
    text = (
        f"{where}; micro-batches of {asked.micro_batch} sentences\n\n{table(found)}\n\n"
        f"By arithmetic, on an H200:\n\n{arithmetic()}\n"
    )
    print(text)
    if asked.report:
        report(f"rtd-speed-{asked.device}", "Replaced token detection", __doc__, text)


if __name__ == "__main__":
    main()

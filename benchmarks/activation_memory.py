"""Activation checkpointing: peak memory and time of an update, by length.

    python benchmarks/activation_memory.py [--arch composite_bert_small] [--tokens 2048] [--report]

Each update (forward, backward, AdamW) runs in its own process. Reported are its peak memory beyond
weights, gradients and optimizer state, and its processor time. On a GPU (--device cuda) torch
counts the memory, and the time is wall time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from harness import device_clock, machine, parser, publish, seconds, table
from workloads import masked_batch

from toolkit import build_model
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.optim.update import Precision
from toolkit.training.callbacks.logging import peak_memory_gib
from toolkit.training.setup import parallelize

VOCABULARY, UPDATES = 8000, 3


def allocated_gib(device: torch.device) -> float:
    """Memory of this process, or of the GPU."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device) / 2**30
    kib = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return kib / 2**20


def measure(c: argparse.Namespace) -> dict[str, float]:
    """Peak and time of an update, in this process."""
    device, gpu = torch.device(c.device), c.device == "cuda"
    torch.manual_seed(1)
    learner = build_model(c.arch, vocabulary_size=VOCABULARY, task="mlm").to(device)
    config = TrainingConfig(checkpoint_activations=c.recomputed)
    parallelize(learner, World(device=device), config, c.precision)
    optimizer = torch.optim.AdamW(learner.parameters(), fused=True)
    precision = Precision(c.precision, device)
    batch = masked_batch(VOCABULARY, c.length, c.tokens, c.device)
    for p in learner.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()

    def update() -> None:
        with precision.autocast():
            logits = learner(batch)["mlm"].logits
        torch.nn.functional.cross_entropy(logits.float(), batch.targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    before = allocated_gib(device)
    times = [seconds(update, device_clock if gpu else time.process_time) for _ in range(UPDATES)]
    peak = peak_memory_gib(device)
    return {"mib": 1024 * (peak - before), "ms": 1e3 * statistics.median(times[1:])}


def measure_in_process(
    c: argparse.Namespace, length: int, precision: str, recomputed: bool
) -> dict[str, float]:
    """Run `measure` in a new process."""
    command = [sys.executable, __file__, "--one", "--arch", c.arch, "--device", c.device]
    command += ["--tokens", str(c.tokens), "--length", str(length), "--precision", precision]
    result = subprocess.run(
        command + ["--recomputed"] * recomputed, capture_output=True, text=True, check=True
    )
    return json.loads(result.stdout)


def memory_table(c: argparse.Namespace) -> str:
    rows = []
    for length in (128, 512):
        for precision in ("fp32", "bf16"):
            plain, recomputed = (
                measure_in_process(c, length, precision, how) for how in (False, True)
            )
            memory, time_ratio = recomputed["mib"] / plain["mib"], recomputed["ms"] / plain["ms"]
            sizes = [f"{plain['mib']:,.0f}", f"{recomputed['mib']:,.0f}"]
            rows.append([length, precision, *sizes, f"{memory:.0%}", f"x {time_ratio:.2f}"])
    return table(
        ["tokens per sentence", "precision", "MiB", "MiB recomputed", "memory", "time"], rows
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--arch", default="composite_bert_small")
    options.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options.add_argument("--tokens", type=int, default=2048)
    options.add_argument("--length", type=int, default=128)
    options.add_argument("--precision", default="fp32")
    options.add_argument("--recomputed", action="store_true")
    options.add_argument("--one", action="store_true", help="one measurement, in this process")
    c = options.parse_args()
    if c.one:
        print(json.dumps(measure(c)))
        return
    text = (
        f"{machine(c.device)}, {c.arch}, {c.tokens} tokens per update; memory and time with "
        f"recomputed layers relative to those without\n\n{memory_table(c)}\n"
    )
    publish(text, c.report, "Activation checkpointing", __doc__)


if __name__ == "__main__":
    main()

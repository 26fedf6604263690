"""What activation checkpointing saves and costs: peak memory and time of an update, by length.

    python benchmarks/activation_memory.py [--arch composite_bert_small] [--tokens 2048] [--report]

Each update (forward, backward, AdamW) is measured in a process of its own: the most memory that it
held beyond what weights, gradients and optimizer keep, and its processor time. On a GPU
(--device cuda) the same by torch's own count of memory and by the clock.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import torch

from toolkit import build_model
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.models.interface import Inputs
from toolkit.optim.precision import Precision
from toolkit.tasks.batch import MaskedBatch
from toolkit.training.callbacks.throughput import peak_memory_gib
from toolkit.training.parallelize import parallelize

VOCABULARY, UPDATES = 8000, 3
REPORTS = Path(__file__).parent / "reports"


def held_gib(device: torch.device) -> float:
    """Memory held now."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device) / 2**30
    kib = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return kib / 2**20


def batch_of(length: int, tokens: int, device: torch.device) -> MaskedBatch:
    """Of random tokens, 15 % of the places predicted."""
    ids = torch.randint(5, VOCABULARY, (max(1, tokens // length), length), device=device)
    places = torch.arange(0, ids.numel(), 7, device=device)
    weights = {"mlm": float(len(places))}
    return MaskedBatch(Inputs(ids), places, ids.flatten()[places], weights, len(ids), ids.numel())


def measure(c: argparse.Namespace) -> dict[str, float]:
    """Peak and time of an update, in this process."""
    device, gpu = torch.device(c.device), c.device == "cuda"
    torch.manual_seed(1)
    learner = build_model(c.arch, vocabulary_size=VOCABULARY, task="mlm").to(device)
    config = TrainingConfig(checkpoint_activations=c.recomputed)
    parallelize(learner, World(device=device), config, c.precision)
    optimizer = torch.optim.AdamW(learner.parameters(), fused=True)
    precision, batch = Precision(c.precision, device), batch_of(c.length, c.tokens, device)
    for p in learner.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    before, times = held_gib(device), []
    for _ in range(UPDATES):
        begun = time.perf_counter() if gpu else time.process_time()
        with precision.autocast():
            logits = learner(batch)["mlm"].logits
        torch.nn.functional.cross_entropy(logits.float(), batch.targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        if gpu:
            torch.cuda.synchronize()
        times.append((time.perf_counter() if gpu else time.process_time()) - begun)
    peak = peak_memory_gib(device)
    return {"mib": 1024 * (peak - before), "ms": 1e3 * statistics.median(times[1:])}


def in_process(c: argparse.Namespace, length: int, precision: str, recomputed: bool) -> dict:
    command = [sys.executable, __file__, "--one", "--arch", c.arch, "--device", c.device]
    command += ["--tokens", str(c.tokens), "--length", str(length), "--precision", precision]
    ran = subprocess.run(
        command + ["--recomputed"] * recomputed, capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)


def table(c: argparse.Namespace) -> str:
    rows = [
        "| tokens of a sentence | precision | MiB | MiB recomputed | share | time |",
        "|---|---|---|---|---|---|",
    ]
    for length in (128, 512):
        for precision in ("fp32", "bf16"):
            plain, again = (in_process(c, length, precision, how) for how in (False, True))
            rows.append(
                f"| {length} | {precision} | {plain['mib']:,.0f} | {again['mib']:,.0f} "
                f"| {again['mib'] / plain['mib']:.0%} | x {again['ms'] / plain['ms']:.2f} |"
            )
    return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="composite_bert_small")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--recomputed", action="store_true")
    parser.add_argument("--one", action="store_true", help="one measurement, in this process")
    parser.add_argument("--report", action="store_true", help="write it to benchmarks/reports")
    c = parser.parse_args()
    if c.one:
        print(json.dumps(measure(c)))
        return
    machine = torch.cuda.get_device_name() if c.device == "cuda" else platform.machine()
    head = (
        f"# Activation checkpointing, {date.today()}\n\n"
        f"    python benchmarks/activation_memory.py --arch {c.arch} --tokens {c.tokens}\n\n"
        f"Memory of one update of {c.tokens} tokens beyond weights, gradients and optimizer; time\n"
        f"with recomputed layers by the time without.\n\n"
        f"{machine}, torch {torch.__version__}, {c.arch}\n\n"
    )
    text = head + table(c)
    print(text)
    if c.report:
        (REPORTS / f"{date.today()}-activation-memory.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

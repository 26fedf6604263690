"""Hardware utilization: FLOPs of an update, peak FLOP/s of the machine, memory."""

from __future__ import annotations

import resource
import sys
from time import perf_counter

import torch

from toolkit.optim.precision import DTYPES
from toolkit.tasks.batch import Batch, to_device
from toolkit.tasks.learner import Learner
from toolkit.training.flop_counter import FlopCounter

# Dense multiply rates in operations per second, from the manufacturer's data sheets.
PEAK_FLOPS: dict[str, dict[str, float]] = {
    "H200": {"bf16": 989e12, "fp16": 989e12, "tf32": 494e12, "fp32": 67e12},
    "H100": {"bf16": 989e12, "fp16": 989e12, "tf32": 494e12, "fp32": 67e12},
    "A100": {"bf16": 312e12, "fp16": 312e12, "tf32": 156e12, "fp32": 19.5e12},
    "L40S": {"bf16": 362e12, "fp16": 362e12, "tf32": 183e12, "fp32": 91.6e12},
    "A10": {"bf16": 125e12, "fp16": 125e12, "tf32": 62.5e12, "fp32": 31.2e12},
    "L4": {"bf16": 121e12, "fp16": 121e12, "tf32": 60e12, "fp32": 30.3e12},
    "V100": {"fp16": 125e12, "fp32": 15.7e12},
    "T4": {"fp16": 65e12, "fp32": 8.1e12},
}


def peak_flops_per_second(device: torch.device, precision: str) -> float | None:
    """FLOP/s of large matrix products: from a table for GPUs, measured on a CPU."""
    if device.type == "cpu":
        return measure_flops_per_second(precision)
    name = torch.cuda.get_device_name(device)
    return next((peaks.get(precision) for key, peaks in PEAK_FLOPS.items() if key in name), None)


def measure_flops_per_second(precision: str, size: int = 1024, seconds: float = 0.1) -> float:
    """2 n^3 FLOPs over the time of the fastest product of n x n matrices within `seconds`.

    n is `size`, or less where one such product would take longer: without instructions for bf16,
    a CPU needs seconds for what takes milliseconds in fp32.
    """
    dtype, n = DTYPES.get(precision, torch.float32), size // 8
    time_product(n, dtype)  # warm-up
    while n < size and 8 * time_product(n, dtype) < seconds:
        n *= 2
    fastest, end = float("inf"), perf_counter() + seconds
    while perf_counter() < end:
        fastest = min(fastest, time_product(n, dtype))
    return 2.0 * n**3 / fastest


def time_product(n: int, dtype: torch.dtype) -> float:
    """Seconds of a product of two n x n matrices."""
    a = torch.ones(n, n, dtype=dtype)
    started = perf_counter()
    a @ a
    return perf_counter() - started


def update_flops(learner: Learner, batch: Batch, device: torch.device) -> float:
    """FLOPs of an update with this batch: three times those of its forward pass.

    The backward pass multiplies by the weights and by the inputs, twice the forward's work
    (Kaplan et al. 2020, section 2.1). With frozen parameters it is what they leave of it. Only
    matrix products and convolutions are counted.
    """
    has_frozen = not all(p.requires_grad for p in learner.parameters())
    with torch.no_grad(), FlopCounter() as counter:
        learner(to_device(batch, device, packs=learner.uses_packing))
    return float(counter.total + (counter.backward if has_frozen else 2 * counter.total))


def peak_memory_gib(device: torch.device) -> float:
    """Peak memory of this process, on its GPU or in RAM."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30

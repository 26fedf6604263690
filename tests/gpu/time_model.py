"""An estimate of an update's time on an H200 from its simulated operations.

An operation takes the longest of its arithmetic, its memory traffic and the gap between two
kernels; the host enqueues operations meanwhile, and the slower of both decides. A real GPU reaches
60 to 85 % of such an estimate where the GPU is the limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor

from tests.gpu.launches import LaunchCounter, name_of, tensors
from tests.gpu.steps import Case, build_trainer, fake_device, take_step
from toolkit.training.flop_counter import FORMULAS

BYTES_PER_SECOND = 3.6e12
"""Of kernels that memory limits; copies reach 4.3e12, the data sheet says 4.8e12."""
ALIGNED, MISALIGNED = 620e12, 60e12
"""FLOP/s of bf16 products whose rows begin at multiples of 16 bytes, and of others."""
ATTENTION = {False: 180e12, True: 140e12}
"""FLOP/s of fused attention, forward and backward."""
PEAK = 989e12
LAUNCH_SECONDS = 2.2e-6
"""From the start of a short kernel to that of the next."""
GRAPH_LAUNCH_SECONDS = 1.3e-6
"""The same within a CUDA graph."""
HOST_SECONDS = {"forward": 9e-6, "backward": 5.5e-6, "optimizer": 5.5e-6}
"""Of torch, autograd and autocast, by operation."""
HOST_SECONDS_PER_UPDATE = 4.5e-3
ELEMENTS_OF_16_BYTES = 8


class Estimate(NamedTuple):
    """Of one update."""

    products: float
    """Seconds of products and attention on the GPU."""
    others: float
    """Seconds of all other kernels."""
    host: float
    """Seconds in which the host enqueues them one by one."""
    flops: float

    @property
    def gpu(self) -> float:
        return self.products + self.others

    @property
    def seconds(self) -> float:
        return max(self.gpu, self.host)

    def mfu(self, seconds: float) -> float:
        return self.flops / seconds / PEAK


class TimedCounter(LaunchCounter):
    """Counts operations, and estimates how long they take."""

    def __init__(self) -> None:
        super().__init__()
        self.products = self.others = self.graphed = self.flops = 0.0
        """Seconds of products, of other kernels and of all as part of a CUDA graph; and FLOPs."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        launches, size = self.launches.total(), self.bytes.total()
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if self.launches.total() > launches:
            self.add(func, args, kwargs or {}, out, self.bytes.total() - size)
        return out

    def add(self, func: Any, args: Any, kwargs: Any, out: Any, size: int) -> None:
        formula, seconds = FORMULAS.get(func.overloadpacket), size / BYTES_PER_SECOND
        flops = formula(*args, **kwargs, out_val=out) if formula else 0
        if flops:
            operands = [t for t in (*tensors((args, kwargs)), *tensors(out)) if t.dim() > 1]
            seconds = max(seconds, flops / product_rate(name_of(func), operands))
            self.products += max(seconds, LAUNCH_SECONDS)
        else:
            self.others += max(seconds, LAUNCH_SECONDS)
        self.graphed += max(seconds, GRAPH_LAUNCH_SECONDS)
        self.flops += flops

    @property
    def launch_seconds(self) -> float:
        """Of the host."""
        launches = self.by_phase(self.launches)
        return sum(HOST_SECONDS[phase] * number for phase, number in launches.items())

    @property
    def estimate(self) -> Estimate:
        host = HOST_SECONDS_PER_UPDATE + self.launch_seconds
        return Estimate(self.products, self.others, host, self.flops)


def estimate_update(case: Case) -> Estimate:
    """Of the second update, for which optimizer and caches have what they keep."""
    with fake_device():
        trainer = build_trainer(case)
        take_step(trainer, case.task, case.shape)
        return take_step(trainer, case.task, case.shape, TimedCounter).estimate


def product_rate(name: str, operands: Iterable[Tensor]) -> float:
    """FLOP/s of a product or of an attention kernel."""
    if "attention" in name:
        return ATTENTION["backward" in name]
    return ALIGNED if all(map(is_aligned, operands)) else MISALIGNED


def is_aligned(matrix: Tensor) -> bool:
    """Whether all rows begin at multiples of 16 bytes, if the matrix does."""
    elements = ELEMENTS_OF_16_BYTES * 2 // matrix.element_size()
    strides = [
        stride for stride, length in zip(matrix.stride(), matrix.shape, strict=True) if length > 1
    ]
    return all(stride % elements == 0 for stride in strides if stride > 1)

"""Precision: automatic choice, autocast and the loss scale for fp16."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TypedDict

import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import TrainingConfig
from toolkit.distributed.world import set_tf32

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def bf16_is_fast(device: torch.device) -> bool:
    """Whether the hardware multiplies bf16: AVX512_BF16 or AMX, or a GPU since Ampere."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def requested_precision(c: TrainingConfig) -> str:
    """--precision, or the format of --fp16 or --bf16."""
    return "fp16" if c.fp16 else "bf16" if c.bf16 else c.precision


def resolve_precision(name: str, device: torch.device) -> str:
    """The format that auto, fp32, tf32, bf16 or fp16 means on this device."""
    if name == "auto":
        return "bf16" if bf16_is_fast(device) else "fp32"
    if name == "fp16" and device.type == "cpu":
        raise ToolkitError(
            "precision must be auto, bf16 or fp32 on a CPU, but is fp16, which CPUs only "
            "emulate. Omit it: auto chooses the fast format of this machine."
        )
    if name == "tf32" and device.type != "cuda":
        raise ToolkitError(
            f"precision must be auto, bf16 or fp32 on {device.type}, but is tf32, a format of "
            f"NVIDIA's GPUs. Omit it: auto chooses the fast format of this machine."
        )
    return name


class LossScaleState(TypedDict):
    """State of a LossScale in a checkpoint."""

    scale: float
    good: float


class LossScale:
    """Dynamic scaling of the loss (Micikevicius et al. 2018, section 3.2), on the device.

    Halved after a non-finite gradient, doubled after `interval` consecutive finite ones.
    """

    def __init__(self, device: torch.device, start: float = 2.0**15, interval: int = 2000) -> None:
        self.scale = torch.tensor(start, device=device)
        self.good = torch.tensor(0.0, device=device)
        self.interval = interval

    def update(self, skipped: Tensor) -> None:
        """Record one update; `skipped` is 1 if its gradient was not finite, else 0."""
        self.good.add_(1).mul_(1 - skipped)
        grows = self.good.ge(self.interval).float()
        self.good.mul_(1 - grows)
        self.scale.mul_(1 + grows - 0.5 * skipped)

    def state(self) -> LossScaleState:
        return {"scale": float(self.scale), "good": float(self.good)}

    def restore(self, state: LossScaleState) -> None:
        self.scale.fill_(state["scale"])
        self.good.fill_(state["good"])


class Precision:
    """Autocast for the learner and the criterion; parameters stay in fp32.

    The choice between fp32 and tf32 holds for the whole process.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self.loss_scale = LossScale(device) if name == "fp16" else None
        if device.type == "cuda":
            set_tf32(name == "tf32")

    def autocast(self) -> AbstractContextManager[object]:
        if self.name not in DTYPES:
            return nullcontext()
        return torch.autocast(self.device.type, DTYPES[self.name])

"""The device of a process, and what it needs to know of its backend."""

from __future__ import annotations

import logging

import torch

from toolkit.common.errors import ToolkitError

UNTESTED = ("mps", "xpu")
"""Accelerators that no test has run on; auto does not choose them."""
logger = logging.getLogger(__name__)


def select_device(name: str, local_rank: int = 0) -> torch.device:
    """The device of this process for auto, cpu, cuda, mps or xpu."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    present = found.type if found else "cpu"
    if name == "auto":
        name = "cpu" if present in UNTESTED else present
    if name == "cpu":
        return torch.device("cpu")
    if name != present:
        raise ToolkitError(
            f"device must be one of this machine, but is {name!r} and torch finds no such device. "
            f"Use --device cpu or auto, or install a build of torch with {name}."
        )
    count = torch.accelerator.device_count()
    if local_rank >= count:
        raise ToolkitError(
            f"each process must have its own {name} device, but LOCAL_RANK is {local_rank} and "
            f"there are {count}. Start fewer with torchrun --nproc-per-node."
        )
    return torch.device(name, local_rank)


def configure_backend(device: torch.device) -> None:
    """Process-wide settings of the device's backend.

    cuDNN's attention makes a plan for each new shape, which takes longer than the attention of a
    training step; cuDNN's convolutions are restricted to deterministic algorithms. What an untested
    accelerator does not implement runs on the CPU, with a warning of torch.
    """
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    if device.type in UNTESTED:
        logger.warning(
            "No test of the toolkit has run on %s: compare a short run with --device cpu first.",
            device.type,
        )


def set_tf32(enabled: bool) -> None:
    """Whether CUDA rounds the operands of fp32 products and convolutions to TF32's 10 bits.

    torch's default rounds those of convolutions only.
    """
    mode = "tf32" if enabled else "ieee"
    torch.backends.cuda.matmul.fp32_precision = mode
    torch.backends.cudnn.conv.fp32_precision = mode  # type: ignore[attr-defined]
    torch.backends.cudnn.rnn.fp32_precision = mode  # type: ignore[attr-defined]


def gpu_name(device: torch.device) -> str:
    """Name of a GPU; type of another accelerator."""
    if device.type in ("cuda", "xpu"):
        return str(torch.get_device_module(device).get_device_name(device))
    return device.type

"""The device and the versions that a run computes with, as its log records them."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import torch
from torch.utils import collect_env

from toolkit import __version__
from toolkit.distributed.device import gpu_name


def describe_environment(device: torch.device) -> dict[str, str]:
    """Name of the device, and versions of what is installed for it."""
    versions = {
        "toolkit": __version__,
        "torch": torch.__version__,
        "triton": installed_version("triton"),
        **(cuda_versions() if device.type == "cuda" else {}),
    }
    known = {name: str(version) for name, version in versions.items() if version}
    return {"device": device_name(device), **known}


def device_name(device: torch.device) -> str:
    if device.type != "cpu":
        return gpu_name(device)
    threads = torch.get_num_threads()
    return f"CPU ({platform.machine()}, {threads} of {os.cpu_count()} threads)"


def installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cuda_versions() -> dict[str, str | int | None]:
    """Versions of the driver, CUDA and cuDNN; nvidia-smi knows the driver's."""
    return {
        "driver": collect_env.get_nvidia_driver_version(collect_env.run),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }

"""The machine, the device and the versions that a run computes with, as it records them."""

from __future__ import annotations

import os
import platform
import re
import socket
from importlib import metadata

import torch
from torch.utils import collect_env

from toolkit import __version__
from toolkit.common.json_files import JsonError, JsonObject, decode
from toolkit.common.system import memory_bytes, processor_name
from toolkit.distributed.world import gpu_name

DISTRIBUTION = "toolkit-seq"


def describe_environment(device: torch.device) -> dict[str, str]:
    """Name of the device, and versions of what is installed for it."""
    versions = {
        "toolkit": __version__,
        "torch": torch.__version__,
        "triton": installed_version("triton"),
    }
    if device.type == "cuda":
        versions |= {
            "driver": collect_env.get_nvidia_driver_version(collect_env.run),
            "cuda": torch.version.cuda,
            "cudnn": str(torch.backends.cudnn.version()),
        }
    known = {name: str(version) for name, version in versions.items() if version}
    return {"device": device_name(device), **known}


def device_name(device: torch.device) -> str:
    """Name of a GPU, or architecture and threads of a CPU."""
    if device.type != "cpu":
        return gpu_name(device)
    return f"CPU ({platform.machine()}, {torch.get_num_threads()} of {os.cpu_count()} threads)"


def installed_version(package: str) -> str | None:
    """Version of an installed package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that the toolkit requires."""
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a source tree that is not installed
        required = ["torch", "numpy"]
    # torch>=2.10 -> torch
    names = [re.split(r"[^\w.-]", text)[0] for text in required if "extra ==" not in text]
    found = {name: installed_version(name) for name in names}
    return {"python": platform.python_version(), **{n: v for n, v in found.items() if v}}


def installed_commit() -> str | None:
    """The commit that pip installed the toolkit from, if it was from a git URL."""
    try:
        origin = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        return decode(origin or "{}", JsonObject)["vcs_info"]["commit_id"]
    except (metadata.PackageNotFoundError, OSError, JsonError, LookupError):
        return None


def describe_machine() -> JsonObject:
    """Host, operating system, processor, memory and the GPUs that this process may use."""
    memory = memory_bytes()
    gpus = [gpu_name(torch.device("cuda", i)) for i in range(torch.cuda.device_count())]
    return {
        "host": socket.gethostname(),
        "os": platform.platform(),
        "cpu": processor_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1) if memory else None,
        "gpus": gpus,
    }

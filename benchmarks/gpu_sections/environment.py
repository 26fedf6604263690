"""Versions, the GPU and the process-wide settings that the other sections run under."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from harness import cores

from gpu_sections.context import Context, Row

PACKAGES = ("triton", "transformers", "numpy")
QUERIED = "driver_version,power.limit,clocks.max.sm,clocks.sm,clocks.mem,temperature.gpu"


def run(ctx: Context) -> Iterator[Row]:
    facts = {"commit": commit(), "torch": torch.__version__, **versions()}
    facts |= {"Python": platform.python_version()}
    facts |= {"CPU": f"{platform.processor() or platform.machine()}, {cores()} cores"}
    facts |= {"CPU threads": torch.get_num_threads()}
    if ctx.on_gpu:
        facts |= gpu_facts(ctx)
    for name, value in facts.items():
        yield {"what": name, "value": value}


def commit() -> str | None:
    """The toolkit's, if this is a git checkout."""
    command = ["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return ran.stdout.strip() or None


def versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def gpu_facts(ctx: Context) -> dict[str, Any]:
    found = torch.cuda.get_device_properties(ctx.device)
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return {
        "GPU": found.name,
        "GPUs": torch.cuda.device_count(),
        "compute capability": f"{found.major}.{found.minor}",
        "multiprocessors": found.multi_processor_count,
        "memory GiB": round(found.total_memory / 2**30, 1),
        "CUDA": torch.version.cuda,
        "cuDNN": cudnn.version(),
        "NCCL": ".".join(map(str, torch.cuda.nccl.version())),
        "cuDNN attention": cuda.cudnn_sdp_enabled(),
        "cuDNN deterministic": cudnn.deterministic,
        "fp32 products": cuda.matmul.fp32_precision,
        "allocator": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "default"),
        **query_driver(),
    }


def query_driver() -> dict[str, str]:
    """What nvidia-smi reports of the first GPU, if it is installed."""
    if not shutil.which("nvidia-smi"):
        return {}
    command = ["nvidia-smi", f"--query-gpu={QUERIED}", "--format=csv,noheader", "--id=0"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=20)
    values = ran.stdout.strip().split(", ")
    return dict(zip(QUERIED.split(","), values, strict=False)) if not ran.returncode else {}

"""A CUDA device for fake tensors, in a build of torch without CUDA.

Under FakeTensorMode, tensors on "cuda" then have autograd, CUDA's own autocast lists and the
shapes, types and devices of every operation, without a GPU and without numbers.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("guard.cpp")


def missing() -> str:
    """Why there can be no fake device here; empty if there can."""
    if (find_torch() / "lib" / "libtorch_cuda.so").exists():
        return "the fake CUDA device needs a build of torch without CUDA"
    return "" if shutil.which("g++") else "the fake CUDA device is compiled with g++"


def load() -> None:
    """Add the device to this process, which must not have imported torch yet."""
    assert "torch" not in sys.modules, "torch looks for CUDA once, when it is imported"
    ctypes.CDLL(str(build_library()), mode=ctypes.RTLD_GLOBAL)
    import torch
    import torch.cuda.amp.common

    torch.set_num_threads(1)
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda *args, **kwargs: True


def build_library() -> Path:
    """The compiled device; kept in the folder for temporary files, per source and torch."""
    torch_folder = find_torch()
    versions = (torch_folder / "version.py").read_bytes() + str(torch_folder).encode()
    key = hashlib.sha256(SOURCE.read_bytes() + versions).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"fake-cuda-{os.getuid()}-{key}.so"
    if not library.exists():
        compile_library(torch_folder, library)
    return library


def find_torch() -> Path:
    """The folder of torch, which is not imported."""
    spec = importlib.util.find_spec("torch")
    assert spec and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def compile_library(torch_folder: Path, library: Path) -> None:
    include, libraries = torch_folder / "include", torch_folder / "lib"
    part = library.with_suffix(f".{os.getpid()}")
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", str(SOURCE), "-o", str(part)]
    command += [f"-I{include}", f"-I{include}/torch/csrc/api/include", f"-L{libraries}"]
    command += ["-lc10", "-ltorch_cpu", f"-Wl,-rpath,{libraries}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    part.rename(library)

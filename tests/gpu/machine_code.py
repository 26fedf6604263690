"""Triton kernels as machine code for a GPU that need not be there; Triton's wheel brings ptxas."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HOPPER = GPUTarget("cuda", 90, 32)
ALIGNED = [["tt.divisibility", 16]]
"""Of pointers and strides; without it loads are not vectorized."""


class Usage(NamedTuple):
    """Of one thread."""

    registers: int
    stack_bytes: int
    """Of memory for what registers do not hold."""


class Variant(NamedTuple):
    """One compilation of a kernel."""

    kernel: Any
    types: dict[str, Any]
    """Argument -> its type, such as *bf16, i32, i32:16 (a multiple of 16), or 1 (that number); a
    tuple has a tuple of types."""
    constants: dict[str, Any]
    warps: int = 4
    stages: int = 3


def measure_usage(variant: Variant) -> Usage:
    """Registers and stack by the machine code."""
    names = variant.kernel.arg_names
    signature = {n: "constexpr" if n in variant.constants else variant.types[n] for n in names}
    constants = {(names.index(name),): value for name, value in variant.constants.items()}
    aligned: dict[tuple[int, ...], Any] = {}
    signature = {
        name: read_type(given, (place,), constants, aligned)
        for place, (name, given) in enumerate(signature.items())
    }
    source = ASTSource(
        fn=variant.kernel,
        signature=signature,
        constexprs=constants,
        attrs=aligned,
    )
    options = {"num_warps": variant.warps, "num_stages": variant.stages}
    built = triton.compile(source, target=HOPPER, options=options)
    return read_usage(built.asm["cubin"])


def read_type(
    given: Any, path: tuple[int, ...], constants: dict[Any, Any], aligned: dict[Any, Any]
) -> Any:
    """Triton's name of a type; what is known of it goes to the other two."""
    if isinstance(given, tuple):
        return tuple(
            read_type(each, (*path, n), constants, aligned) for n, each in enumerate(given)
        )
    if given == "1":
        constants[path] = 1
        return "constexpr"
    if given.startswith("*") or given.endswith(":16"):
        aligned[path] = ALIGNED
    return given.removesuffix(":16")


def read_usage(cubin: bytes) -> Usage:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "-res-usage", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert found, text
    return Usage(int(found[1]), int(found[2]))

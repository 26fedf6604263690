"""Registers and stack bytes of every Triton kernel for sm_90, by the version of Triton.

python -m tests.gpu.stored_usage      writes the bounds of the installed version again
"""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).with_name("kernel_usage.json")
Bounds = dict[str, list[int]]
"""Kernel -> most registers and stack bytes."""


def load_bounds() -> dict[str, Bounds]:
    stored: dict[str, Bounds] = json.loads(FILE.read_text("utf-8"))
    return stored


def write_usage() -> None:
    import triton

    from tests.gpu.kernels import kernel_variants
    from tests.gpu.machine_code import measure_usage

    bounds = load_bounds()
    bounds[triton.__version__] = {
        name: list(measure_usage(variant)) for name, variant in kernel_variants()
    }
    versions = [
        f"{json.dumps(version)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        + "\n}"
        for version, rows in sorted(bounds.items())
    ]
    FILE.write_text("{" + ",\n".join(versions) + "}\n", "utf-8")


if __name__ == "__main__":
    write_usage()

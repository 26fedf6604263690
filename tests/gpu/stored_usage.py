"""Registers and stack bytes of every Triton kernel for sm_90: bounds that the tests hold.

python -m tests.gpu.stored_usage      writes the file again
"""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).with_name("kernel_usage.json")


def write_usage() -> None:
    from tests.gpu.kernels import kernel_variants
    from tests.gpu.machine_code import measure_usage

    rows = {name: list(measure_usage(variant)) for name, variant in kernel_variants()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    FILE.write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    write_usage()

"""Launches and bytes of every simulated update, kept in a file that changes with the code.

python -m tests.gpu.stored_counts      writes the file again
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("step_counts.json")


def load_counts() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return stored


def to_row(launches: dict[str, int], size: dict[str, int]) -> list[int]:
    """Launches of forward, backward and optimizer, then their bytes."""
    return [*launches.values(), *size.values()]


def write_counts() -> None:
    import torch

    from tests.gpu.cases import QUICK, SWEEP
    from tests.gpu.steps import count_update

    rows = {}
    for case in [*QUICK, *SWEEP]:
        try:
            counts = count_update(case)
            rows[case.name] = to_row(counts.launches, counts.bytes)
        except Exception as error:
            print(f"left out: {case.name}: {error}")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    version = json.dumps(base_version(torch.__version__))
    FILE.write_text(f'{{"torch": {version}, "cases": {{\n{lines}\n}}}}\n', "utf-8")


def base_version(version: str) -> str:
    """The version without the build, such as +cpu."""
    return version.split("+")[0]


if __name__ == "__main__":
    from tests.gpu import fake_cuda

    fake_cuda.load()
    write_counts()

"""Launches, bytes and graphs of the simulated runs, kept in files that change with the code.

python -m tests.gpu.stored_counts [PART OF NAMES]      writes the files again
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STEPS, GRAPHS = (Path(__file__).with_name(f"{name}_counts.json") for name in ("step", "graph"))


def load_counts(file: Path) -> dict[str, Any]:
    """The version of torch, and counts by the names of cases."""
    stored: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return stored


def to_row(launches: dict[str, int], size: dict[str, int]) -> list[int]:
    """Launches of forward, backward and optimizer, then their bytes."""
    return [*launches.values(), *size.values()]


def count_steps(name_part: str) -> dict[str, list[int]]:
    """The stored counts, and new ones of the cases whose names have this part."""
    from tests.gpu.cases import QUICK, SWEEP
    from tests.gpu.steps import count_update

    cases = [*QUICK, *SWEEP]
    rows = load_counts(STEPS)["cases"] if name_part else {}
    for case in cases:
        if name_part not in case.name:
            continue
        try:
            counts = count_update(case)
            rows[case.name] = to_row(counts.launches, counts.bytes)
        except Exception as error:
            print(f"left out: {case.name}: {error}")
    return rows


def count_graphs() -> dict[str, list[int]]:
    from tests.gpu.compilation import RUNS, compile_run

    return {case.name: [sum(compile_run(case, stream).graphs)] for case, stream in RUNS}


def write_counts(file: Path, rows: dict[str, list[int]]) -> None:
    import torch

    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    version = json.dumps(base_version(torch.__version__))
    file.write_text(f'{{"torch": {version}, "cases": {{\n{lines}\n}}}}\n', "utf-8")


def base_version(version: str) -> str:
    """The version without the build, such as +cpu."""
    return version.split("+")[0]


if __name__ == "__main__":
    from tests.gpu import fake_cuda

    fake_cuda.load()
    write_counts(STEPS, count_steps(" ".join(sys.argv[1:])))
    write_counts(GRAPHS, count_graphs())

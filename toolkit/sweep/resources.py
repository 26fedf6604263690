"""Where the runs of a sweep may train at the same time: GPUs, or shares of the CPU's threads."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import torch

from toolkit.common.system import available_cores

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


def allocate_slots(jobs: int, device: str) -> list[dict[str, str]]:
    """Environment variables of each slot; `jobs` 0 is one a GPU, or one slot without GPUs."""
    gpus = [] if device == "cpu" else visible_gpus()
    if gpus:
        return [{VISIBLE_DEVICES: gpus[slot % len(gpus)]} for slot in range(jobs or len(gpus))]
    if jobs <= 1:
        return [{}]
    threads = max(1, available_cores() // jobs)
    return [{"OMP_NUM_THREADS": str(threads)} for _ in range(jobs)]


def visible_gpus() -> list[str]:
    """Their names for CUDA_VISIBLE_DEVICES; numbers or, where that was set so, UUIDs."""
    named = os.environ.get(VISIBLE_DEVICES, "").split(",")
    count = torch.cuda.device_count()
    return named[:count] if named != [""] else [str(index) for index in range(count)]


SLURM_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=toolkit-sweep
#SBATCH --array=0-{last}
#SBATCH --output={base}/slurm-%A_%a.txt
#SBATCH --signal=B:USR1@120
# Add what your cluster asks for: --partition, --time, --gres=gpu:1, --cpus-per-task.
# A run that is ended early saves a checkpoint; submit again and it goes on. When all are done,
# the command that printed this script, without --sweep.slurm, prints the table.
cd {here} || exit
case $SLURM_ARRAY_TASK_ID in
{cases}
esac
"""


def slurm_script(runs: Sequence[tuple[str, str]], base: Path) -> str:
    """A script for sbatch from (name, command) of each run that is left to do."""
    if not runs:
        return "# every run of this sweep is finished\n"
    cases = [f"  {n}) exec {command} ;; # {name}" for n, (name, command) in enumerate(runs)]
    return SLURM_SCRIPT.format(
        last=len(runs) - 1, base=base, here=shlex.quote(str(Path.cwd())), cases="\n".join(cases)
    )

"""Resources of parallel runs: GPUs, shares of the CPU threads, or Slurm tasks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import torch

from toolkit.common.system import available_cores

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


def allocate_slots(jobs: int, device: str) -> list[dict[str, str]]:
    """Environment variables of each slot. With `jobs` 0: one per GPU, or one without GPUs."""
    gpus = [] if device == "cpu" else visible_gpus()
    if gpus:
        return [{VISIBLE_DEVICES: gpus[slot % len(gpus)]} for slot in range(jobs or len(gpus))]
    if jobs <= 1:
        return [{}]
    threads = max(1, available_cores() // jobs)
    return [{"OMP_NUM_THREADS": str(threads)} for _ in range(jobs)]


def visible_gpus() -> list[str]:
    """Entries of CUDA_VISIBLE_DEVICES (numbers or UUIDs), else the numbers of all GPUs."""
    visible, count = os.environ.get(VISIBLE_DEVICES), torch.cuda.device_count()
    return visible.split(",")[:count] if visible else [str(index) for index in range(count)]


SLURM_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=toolkit-sweep
#SBATCH --array=0-{last}
#SBATCH --output={base}/slurm-%A_%a.txt
#SBATCH --signal=B:USR1@120
# Add what your cluster requires: --partition, --time, --gres=gpu:1, --cpus-per-task.
# A run that is stopped early saves a checkpoint; submit again to resume it. When all are done,
# the command that printed this script, without --sweep.slurm, prints the table.
cd {here} || exit
case $SLURM_ARRAY_TASK_ID in
{cases}
esac
"""


def slurm_script(runs: Sequence[tuple[str, str]], base: Path) -> str:
    """A Slurm array script from (name, command) of each unfinished run."""
    if not runs:
        return "# all runs of this sweep are finished\n"
    cases = [f"  {n}) exec {command} ;; # {name}" for n, (name, command) in enumerate(runs)]
    return SLURM_SCRIPT.format(
        last=len(runs) - 1, base=base, here=shlex.quote(str(Path.cwd())), cases="\n".join(cases)
    )

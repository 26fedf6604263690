"""Shares of the work of toolkit-preprocess: --part I/N."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from toolkit.common.errors import ToolkitError

Item = TypeVar("Item")
AUTO = "auto"


class Share(NamedTuple):
    """The share of one of several processes."""

    number: int
    """Number of the process, counted from 1."""
    processes: int
    """Number of processes."""

    def __str__(self) -> str:
        return f"{self.number}/{self.processes}"

    def select(self, items: Sequence[Item]) -> Sequence[Item]:
        """Every N-th item of N processes. The shares are disjoint, and cover all items."""
        return items[self.number - 1 :: self.processes]


def parse_share(text: str) -> Share:
    """The share that I/N names, or that of this process for `auto`."""
    if text == AUTO:
        return share_of_process()
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    share = Share(int(match[1]), int(match[2])) if match else None
    if share is None or not 1 <= share.number <= share.processes:
        raise ToolkitError(
            f"part must be I/N with I from 1 to N, such as 2/4, or auto, but is {text!r}."
        )
    return share


def share_of_process() -> Share:
    """The share of this process among those of torchrun or Slurm.

    The tasks of a Slurm array have one share each, or one for each process that srun starts.
    """
    if "RANK" in os.environ:
        return Share(_read("RANK") + 1, _read("WORLD_SIZE"))
    if not {"SLURM_ARRAY_TASK_ID", "SLURM_PROCID"} & set(os.environ):
        raise ToolkitError(
            "--part auto requires torchrun, srun or a Slurm array, but none of them started this "
            "process. Give --part I/N."
        )
    task, tasks = _read_array_task() if "SLURM_ARRAY_TASK_ID" in os.environ else (0, 1)
    process, processes = 0, 1
    if "SLURM_PROCID" in os.environ:
        process, processes = _read("SLURM_PROCID"), _read("SLURM_NTASKS")
    return Share(task * processes + process + 1, tasks * processes)


def _read_array_task() -> tuple[int, int]:
    """Position of the task in its Slurm array, counted from 0, and the number of tasks."""
    task = _read("SLURM_ARRAY_TASK_ID") - _read("SLURM_ARRAY_TASK_MIN")
    tasks = _read("SLURM_ARRAY_TASK_COUNT")
    if _read("SLURM_ARRAY_TASK_MAX") - _read("SLURM_ARRAY_TASK_MIN") != tasks - 1:
        raise ToolkitError(
            "--part auto requires a Slurm array with consecutive numbers, such as --array=1-8. "
            "Give --part I/N."
        )
    return task, tasks


def _read(name: str) -> int:
    """A number that the launcher has put into the environment."""
    text = os.environ.get(name, "")
    if not text.isdecimal():
        raise ToolkitError(
            f"--part auto requires the number {name} in the environment, but it is {text!r}. Give "
            f"--part I/N."
        )
    return int(text)

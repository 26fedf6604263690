"""A sweep as a Slurm job array: one task a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

SCRIPT = """\
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


def array_script(runs: Sequence[tuple[str, str]], base: Path) -> str:
    """A script for sbatch from (name, command) of each run that is left to do."""
    if not runs:
        return "# every run of this sweep is finished\n"
    cases = [f"  {n}) exec {command} ;; # {name}" for n, (name, command) in enumerate(runs)]
    return SCRIPT.format(
        last=len(runs) - 1, base=base, here=shlex.quote(str(Path.cwd())), cases="\n".join(cases)
    )

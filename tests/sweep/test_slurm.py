import subprocess
from pathlib import Path

from toolkit.sweep.resources import slurm_script


def run(script, task):
    return subprocess.run(
        ["bash"],
        input=script,
        env={"SLURM_ARRAY_TASK_ID": str(task)},
        text=True,
        capture_output=True,
    )


def test_slurm_script_has_one_array_task_per_run():
    script = slurm_script([("seed=0", "/bin/echo 'a b'"), ("seed=1", "/bin/pwd")], Path("runs"))
    assert "#SBATCH --array=0-1\n" in script and "#SBATCH --output=runs/slurm-" in script
    assert run(script, 0).stdout == "a b\n"
    assert run(script, 1).stdout == f"{Path.cwd()}\n"


def test_slurm_script_without_runs_does_nothing():
    assert run(slurm_script([], Path("runs")), 0).returncode == 0

import subprocess
from pathlib import Path

import pytest

from toolkit.sweep import resources
from toolkit.sweep.resources import allocate_slots, slurm_script


@pytest.fixture
def gpus(monkeypatch):
    def have(count, visible=None):
        monkeypatch.setattr(resources.torch.cuda, "device_count", lambda: count)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return have


def test_slots_are_one_per_gpu(gpus):
    gpus(2)
    assert allocate_slots(0, "auto") == [
        {"CUDA_VISIBLE_DEVICES": "0"},
        {"CUDA_VISIBLE_DEVICES": "1"},
    ]


def test_slots_keep_the_names_of_visible_gpus(gpus):
    gpus(2, "5,7")
    assert [slot["CUDA_VISIBLE_DEVICES"] for slot in allocate_slots(3, "cuda")] == ["5", "7", "5"]


def test_slots_share_cpu_threads_without_gpus(gpus, monkeypatch):
    gpus(0)
    monkeypatch.setattr(resources, "available_cores", lambda: 8)
    assert allocate_slots(0, "auto") == [{}]
    assert allocate_slots(3, "auto") == [{"OMP_NUM_THREADS": "2"}] * 3


def test_slots_on_the_cpu_use_no_gpus(gpus):
    gpus(2)
    assert allocate_slots(0, "cpu") == [{}]


def run_script(script, task):
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
    assert run_script(script, 0).stdout == "a b\n"
    assert run_script(script, 1).stdout == f"{Path.cwd()}\n"


def test_slurm_script_without_runs_does_nothing():
    assert run_script(slurm_script([], Path("runs")), 0).returncode == 0

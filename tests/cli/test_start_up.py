"""What a run on a CPU does not wait for."""

import os
import subprocess
import sys

import pytest

SLOW = ["torch._dynamo", "torch._inductor", "torch.distributed.tensor", "torch.distributed.fsdp"]
SLOW += ["tensorboard", "scipy", "sacrebleu", "matplotlib", "transformers", "pyarrow"]
PROGRAM = f"""
import sys
from toolkit.cli import predict, train
trained = train.main(sys.argv[1:])
predict.main(["--path", sys.argv[-1]])  # says that mlm has no predictions, with the model loaded
print(trained, *(name for name in {SLOW} if name in sys.modules), sep="|")
"""


@pytest.mark.slow
def test_training_and_predicting_import_neither_dynamo_nor_fsdp(data, tmp_path, repository):
    words = [str(data), "--arch", "taco_tiny", "--task", "mpm", "--max-update", "1"]
    words += ["--optimizer", "muon"]  # with AdamW inside
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, "--save-dir", str(tmp_path / "run")],
        env=os.environ | {"PYTHONPATH": str(repository)},
        input="a line\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines()[-1] == "0"


OTHER_SYSTEM = """
import os, signal, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
for owner, names in {os: ("O_NONBLOCK", "sysconf"), signal: ("SIGUSR1", "SIGHUP")}.items():
    for name in names:
        delattr(owner, name)
from toolkit.cli import train
sys.exit(train.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_training_needs_no_module_that_windows_lacks(data, tmp_path, repository):
    words = [str(data), "--arch", "taco_tiny", "--task", "mpm", "--max-update", "2"]
    run = subprocess.run(
        [sys.executable, "-c", OTHER_SYSTEM, *words],
        env=os.environ | {"PYTHONPATH": str(repository)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "runs/taco_tiny-mpm/result.json").exists()
    assert "next: toolkit-generate fill-mask --path runs/taco_tiny-mpm\n" in run.stderr

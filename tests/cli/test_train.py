import json
import shlex
import subprocess
import sys

import pytest

from toolkit.cli.train import main

SHAPE = ["--arch.layers=1", "--arch.width=16", "--arch.heads=2", "--arch.embedding-width=8"]


@pytest.fixture
def words(data):
    """A command line of a small run, apart from its length and folder."""
    named = [str(data), "--arch", "composite_bert_tiny", *SHAPE, "--task", "mlm"]
    return [
        *named,
        "--batch-size=8",
        "--num-workers=0",
        "--precision=fp32",
        "--lr=1e-2",
        "--log-interval=7",
    ]


@pytest.mark.slow
def test_train_resumes_with_the_save_folder_alone(words, tmp_path, end_of):
    words = [*words, "--lr-scheduler=fixed", "--clip-norm=0.5"]
    assert main([*words, "--max-update=10", "--save-dir", str(tmp_path / "whole")]) == 0
    cut = ["--save-dir", str(tmp_path / "cut")]
    assert main([*words, "--max-update=5", *cut]) == 0
    assert main([*cut, "--max-update=10"]) == 0
    assert end_of(tmp_path / "cut") == end_of(tmp_path / "whole")


@pytest.mark.slow
def test_resume_reports_the_options_that_differ_and_records_them(words, tmp_path, capfd):
    folder = ["--save-dir", str(tmp_path / "run")]
    assert main([*words, "--max-update=2", *folder]) == 0
    capfd.readouterr()
    assert main([*folder, "--lr=0.02", "--max-update=4"]) == 0
    expected = (
        f"resuming from {tmp_path}/run/checkpoint_e1_u2: 2 updates, epoch 1, 2 micro-batches into "
        f"it\noptions that differ from the checkpoint:\n"
        f"  optimizer.lr was 0.01 and is now 0.02\n  training.max_update was 2 and is now 4\nrun\n"
    )
    assert expected in capfd.readouterr().err
    assert main(folder) == 0
    assert "differ" not in capfd.readouterr().err
    starts = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert (
        starts[1]["command"] == f"toolkit-train --save-dir {tmp_path}/run --lr=0.02 --max-update=4"
    )
    assert [len(start["changed_options"]) for start in starts] == [0, 2, 0]


def test_another_run_in_the_default_folder_names_both_folders_and_the_difference(
    words, tmp_path, capfd, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--max-update=1"]) == 0
    assert "\nnext: toolkit-generate fill-mask --path runs/composite_bert_tiny-mlm\n" in (
        capfd.readouterr().err
    )
    assert main([*words, "--max-update=1", "--seed=2"]) == 2
    error = capfd.readouterr().err
    assert "from runs/composite_bert_tiny-mlm/checkpoint_e1_u1 with other options" in error
    assert "training.seed was 1 and is now 2" in error
    assert "start another run with --save-dir runs/composite_bert_tiny-mlm-2" in error


def test_resume_rejects_another_architecture_without_its_options(words, tmp_path, capfd):
    folder = ["--save-dir", str(tmp_path / "run")]
    assert main([*words, "--max-update=1", *folder]) == 0
    capfd.readouterr()
    assert main([*folder, "--arch", "taco_tiny"]) == 2
    error = capfd.readouterr().err
    assert "arch.name was 'composite_bert_tiny' and is now 'taco_tiny'. Restore" in error


@pytest.mark.slow
def test_run_whose_progress_nobody_reads_ends_with_all_its_results(words, tmp_path, end_of):
    words += ["--max-update=30", "--log-interval=1", "--save-dir"]
    assert main([*words, str(tmp_path / "watched")]) == 0
    run = shlex.join([sys.executable, "-m", "toolkit.cli.train", *words, str(tmp_path / "alone")])
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {run} 2>&1 | head -1"], capture_output=True, check=False
    )
    assert ran.returncode == 0 and ran.stdout.count(b"\n") == 1
    assert end_of(tmp_path / "alone") == end_of(tmp_path / "watched")


@pytest.mark.slow
def test_sweep_whose_text_nobody_reads_ends_with_its_table(words, tmp_path):
    words += ["--max-update=1", "--seeds=1", "--save-dir", str(tmp_path / "sweep")]
    run = shlex.join([sys.executable, "-m", "toolkit.cli.train", *words])
    ran = subprocess.run(["bash", "-c", f"set -o pipefail; {run} | true"], check=False)
    assert ran.returncode == 0 and (tmp_path / "sweep" / "sweep.json").exists()

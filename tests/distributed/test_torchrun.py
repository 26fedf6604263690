"""Complete runs under torchrun: on two ranks of a CPU, and on one GPU."""

from __future__ import annotations

import json
import math
import re
import signal
import time

import pytest

from tests.helpers.torchrun import ROOT, SHAPE, start_torchrun

TWO_RANKS = "--standalone --nproc-per-node 2"


def torchrun(ranks, words, folder):
    """The result of toolkit-train under torchrun."""
    ran = start_torchrun(f"--standalone --nproc-per-node {ranks}", words, folder)
    _, stderr = ran.communicate()
    assert ran.returncode == 0, stderr
    return json.loads((folder / "run" / "result.json").read_text())


def documented_words():
    """The words after `toolkit.cli.train` in the page's first torchrun command."""
    page = (ROOT / "docs/guides/distributed-training.md").read_text("utf-8")
    joined = page.replace("\\\n", "")
    found = re.search(r"^    torchrun .* -m toolkit\.cli\.train (.*)$", joined, re.M)
    assert found
    return found[1].split()


@pytest.fixture
def place(data, tmp_path):
    """An empty folder where the data folder is called `data`, as on the page."""
    (tmp_path / "data").symlink_to(data)
    return tmp_path


@pytest.mark.slow
def test_rejected_option_is_reported_once_and_in_the_table_of_torchrun(place):
    ran = start_torchrun(
        TWO_RANKS, ["data", "--arch", "bert_tiny", "--task", "mlm", "--dropuot", "0"], place
    )
    _, stderr = ran.communicate()
    error = "toolkit-train: no option is called --dropuot. Did you mean --dropout? See --help."
    assert ran.returncode == 1 and stderr.splitlines().count(error) == 1
    assert stderr.count(f"  traceback : {error}") == 1


@pytest.mark.slow
def test_ranks_save_and_end_after_torchrun_was_killed(place):
    words = f"data --arch bert_tiny --task mlm {SHAPE} --max-update 10000000 --device cpu"
    words += " --save-dir run --save-interval-updates 5"
    ran = start_torchrun(TWO_RANKS, words.split(), place)
    while not (place / "run/checkpoint_last").exists():
        assert ran.poll() is None
        time.sleep(0.1)
    ran.kill()
    ran.communicate()  # returns when both ranks have closed their output
    assert json.loads((place / "run/result.json").read_text())["signal"] == signal.SIGTERM


@pytest.mark.slow
def test_torchrun_command_of_the_docs_runs(place):
    small = f"{SHAPE} --batch-size 2 --max-update 3 --device cpu --sharding full"
    result = torchrun(2, [*documented_words(), *small.split()], place)
    assert result["updates"] == 3 and math.isfinite(result["valid"]["valid"]["loss"])


GPU = [
    "--precision fp32",
    "--precision bf16",
    "--precision fp16",
    "--precision bf16 --compile",
    "--precision bf16 --sharding full",
    "--precision fp16 --sharding full --checkpoint-activations",
    "--precision bf16 --sharding full --compile --checkpoint-activations",
]


@pytest.mark.gpu
@pytest.mark.parametrize("options", GPU)
def test_run_on_one_gpu_learns_and_resumes(place, options):
    """NCCL with a single rank; the second half resumes in a separate process."""
    common = f"data --arch composite_bert_tiny --task mlm {SHAPE} --save-dir run --lr 0.01"
    words = f"{common} --batch-size 4 --device cuda {options}".split()
    first = torchrun(1, [*words, "--max-update", "5"], place)
    result = torchrun(1, [*words, "--max-update", "60"], place)
    assert result["updates"] == 60
    assert result["valid"]["valid"]["loss"] < first["valid"]["valid"]["loss"]


@pytest.mark.gpu
def test_parallelism_options_change_no_loss_on_a_gpu(place):
    common = f"data --arch bert_tiny --task mlm {SHAPE} --save-dir run --max-update 8 --lr 0.01"
    common += " --arch.dropout 0 --arch.attention-dropout 0"  # compiled layers draw other numbers
    losses = []
    for options in ("", "--sharding full", "--checkpoint-activations", "--compile"):
        folder = place / (options.replace(" ", "_") or "plain")
        folder.mkdir()
        (folder / "data").symlink_to(place / "data")
        words = f"{common} --batch-size 4 --device cuda --precision fp32 {options}".split()
        losses.append(torchrun(1, words, folder)["valid"]["valid"]["loss"])
    assert losses == pytest.approx([losses[0]] * 4, abs=1e-3)

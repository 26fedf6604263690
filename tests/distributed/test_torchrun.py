"""Runs under torchrun, and with another number of ranks."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from tests.helpers.torchrun import ROOT, SHAPE, start_torchrun
from toolkit.config.commands.train import TRAIN as TRAIN_COMMAND
from toolkit.config.load import load
from toolkit.training.run import TrainingRun

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


PLUGIN = '''
import os, time
from dataclasses import dataclass
from pathlib import Path

from toolkit import register_callback


@dataclass(frozen=True)
class PauseConfig:
    folder: str = ""


@register_callback("pause", PauseConfig())
def build(config, context):
    """The first launch waits after update 7 until it is killed."""

    def pause(step):
        mark = Path(config.folder, f"paused_{os.environ['RANK']}")
        if context.trainer.progress.update == 7 and not mark.exists():
            mark.with_suffix(".new").write_text(str(os.getpid()))
            mark.with_suffix(".new").rename(mark)
            time.sleep(600)

    return pause
'''
TRAIN = f"data --arch bert_tiny --task mlm {SHAPE} --device cpu --batch-size 2 --max-update 10"
TRAIN += " --save-interval-updates 5 --num-workers 0"
METRICS = ("event", "update", "epoch", "loss", "accuracy", "gradient_norm", "lr")


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def start_agent(data, port, tmp_path):
    """Starts an agent of two, with a callback that pauses; kills all of them at the end."""
    (tmp_path / "data").symlink_to(data)
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "pause.py").write_text(PLUGIN)
    started = []

    def start(**environment):
        options = "--nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --local-addr 127.0.0.1"
        options += f" --rdzv-endpoint 127.0.0.1:{port} --max-restarts 3 --monitor-interval 0.1"
        words = f"{TRAIN} --save-dir run --user-dir plugin --callbacks pause"
        words += f" --callback.pause.folder {tmp_path}"
        started.append(start_torchrun(options, words.split(), tmp_path, **environment))
        return started[-1]

    yield start
    for agent in started:
        agent.kill()


@pytest.fixture
def undisturbed(data, ranks, tmp_path):
    """The save folder of a run of two ranks, without agents."""
    save_dir = tmp_path / "undisturbed"
    words = [str(data), *TRAIN.split()[1:], "--save-dir", str(save_dir)]

    def train(world):
        training = TrainingRun(load(words, TRAIN_COMMAND).config, world)
        training.fit()
        training.close()

    ranks(train)
    return save_dir


def wait_for(condition, agents):
    """Wait until the condition is true, while no agent ends."""
    while not condition():
        assert all(agent.poll() is None for agent in agents)
        time.sleep(0.05)


def is_open(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def is_child(pid, agent):
    status = subprocess.run(["ps", "-o", "ppid=", "-p", pid], capture_output=True, text=True)
    return status.stdout.strip() == str(agent.pid)


def read_metrics(run):
    """The metrics of the last report and of the last validation."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = [record for record in records if record["event"] in ("train", "valid")]
    return [{name: record.get(name) for name in METRICS} for record in found[-2:]]


@pytest.mark.slow
def test_run_ends_as_if_undisturbed_after_a_node_was_killed(
    start_agent, port, undisturbed, tmp_path
):
    # only with this setting does torchrun tell a node that joins later where the ranks' store is
    setting = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    both = [start_agent(**setting)]
    wait_for(lambda: is_open(port), both)  # the first agent has the store, which must survive
    both.append(start_agent(**setting))
    marks = [tmp_path / f"paused_{rank}" for rank in (0, 1)]
    wait_for(lambda: all(mark.exists() for mark in marks), both)
    assert (tmp_path / "run/checkpoint_last").resolve().name == "checkpoint_e1_u5"
    [pid] = [mark.read_text() for mark in marks if is_child(mark.read_text(), both[1])]
    both[1].kill()
    os.kill(int(pid), signal.SIGKILL)
    both[1] = start_agent(**setting)
    for agent in both:
        _, stderr = agent.communicate()
        assert agent.returncode == 0, stderr

    runs = [tmp_path / "run", undisturbed]
    for name in ("model.safetensors", "optimizer.safetensors"):
        one, other = ((run / "checkpoint_last" / name).read_bytes() for run in runs)
        assert one == other, name
    assert read_metrics(runs[0]) == read_metrics(runs[1])

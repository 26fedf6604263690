"""Two torchrun agents on one machine, one rank each; processes of one of them are killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time

import pytest

from tests.helpers.torchrun import SHAPE, start_torchrun
from toolkit.config.commands.train import TRAIN as TRAIN_COMMAND
from toolkit.config.load import load
from toolkit.training.run import TrainingRun

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

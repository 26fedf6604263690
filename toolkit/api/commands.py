"""The commands toolkit-preprocess and toolkit-train as functions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from toolkit.checkpoints.saved_run import find_saved_run
from toolkit.config.command import RUN
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.load import compose, compose_config
from toolkit.data import preprocess as preprocessing
from toolkit.training.result import RunResult
from toolkit.training.run import run

RESUMABLE_RUN = replace(RUN, find_saved_run=find_saved_run)


def preprocess(**options: object) -> None:
    """Write a data folder, as toolkit-preprocess does, with its options.

    `preprocess(trainpref="a.txt", validpref="b.txt", destdir="data", vocab_size=8000)`.
    """
    preprocessing.preprocess(compose_config(options, PREPROCESS))


def train(*data: str | Path, **options: object) -> RunResult:
    """Train on data folders, as toolkit-train does, with its options; returns the last metrics.

    `train("data", arch="bert_tiny", task="mlm", max_update=1000, lr=1e-3, save_dir="run")`. Options
    of a component have its name before a dot, `**{"arch.layers": 2}`, unless they are unambiguous.
    A run that resumes keeps its data and options unless they are given: `train(save_dir="run")`.
    """
    folders = {"data.dirs": [str(folder) for folder in data]} if data else {}
    return run(compose({**folders, **options}, RESUMABLE_RUN))

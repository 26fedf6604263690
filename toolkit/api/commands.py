"""The commands toolkit-preprocess and toolkit-train as functions."""

from __future__ import annotations

from pathlib import Path

from toolkit.config.load import compose
from toolkit.data.preprocess import preprocess_files
from toolkit.training.result import RunResult
from toolkit.training.run import run


def preprocess(**options: object) -> None:
    """Write a data folder, as toolkit-preprocess does, with its options.

    `preprocess(trainpref="a.txt", validpref="b.txt", destdir="data", vocab_size=8000)`.
    """
    preprocess_files(**options)


def train(*data: str | Path, **options: object) -> RunResult:
    """Train on data folders, as toolkit-train does, with its options; returns the last metrics.

    `train("data", arch="bert_tiny", task="mlm", max_update=1000, lr=1e-3, save_dir="run")`. Options
    of a component have its name before a dot, `**{"arch.layers": 2}`, unless they are unambiguous.
    """
    return run(compose({"data.dirs": [str(folder) for folder in data], **options}))

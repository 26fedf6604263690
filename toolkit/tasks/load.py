"""Load the learner of a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from toolkit.checkpoints.load import (
    check_finite,
    find_checkpoint,
    load_weights,
    read_config,
    weights_file,
)
from toolkit.checkpoints.save_folder import read_manifest
from toolkit.config.sections import ComponentConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.tasks.build import build_learner
from toolkit.tasks.learner import Learner


def load_checkpoint(path: str | Path, *, weights: str = "auto") -> Learner:
    """The learner of a checkpoint, or of a save folder's best one, in evaluation mode.

    It has its tokenizer; no data folder is needed. `weights` is auto, trained or average: auto is
    the moving average if the run has one, as in its validation.
    """
    return load_with_task(Path(path), None, weights=weights)


def load_with_task(path: Path, task: ComponentConfig | None, *, weights: str = "auto") -> Learner:
    """`load_checkpoint` with other options of the run's task, on which no weights depend."""
    folder = find_checkpoint(path)
    run, sizes = read_config(folder)
    run = replace(run, task=task or run.task)
    learner = build_learner(run.arch, run.task, sizes)
    learner.origin = learner.require_origin()._replace(run=run)
    learner.metadata = read_manifest(folder).metadata
    load_weights(folder, learner, file=(file := weights_file(folder, weights)))
    check_finite(folder / file, learner.named_parameters())
    learner.tokenizer = Tokenizer.load(folder)
    return learner.eval()

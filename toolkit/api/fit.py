"""Train and evaluate a learner in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from toolkit.analysis.curve import LiveCurve
from toolkit.checkpoints.save_folder import find_saved_run
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import FileName, convert, name_file
from toolkit.common.registry import CRITERIA, LR_SCHEDULERS, OPTIMIZERS
from toolkit.config.command import RUN
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.load import compose, resolve_mapping
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import diff_configs, to_dict
from toolkit.data import preprocess as preprocessing
from toolkit.data.loading.loader import BatchLoader
from toolkit.distributed import World
from toolkit.optim.update import Precision, requested_precision, resolve_precision
from toolkit.reporting.console import in_notebook
from toolkit.tasks.examples import TaskDataset
from toolkit.tasks.learner import Learner, check_limits
from toolkit.training.callbacks.stopping import count_total_updates
from toolkit.training.data import batch_limits
from toolkit.training.evaluation import evaluate_model
from toolkit.training.result import RunResult
from toolkit.training.run import run
from toolkit.training.step import Metrics, TrainingProgress
from toolkit.training.trainer import Trainer

SECTIONS = ("optimizer.", "lr_scheduler.", "criterion.")
OPTIONS = (
    *("data.batch_size", "data.max_tokens"),
    *("training.max_update", "training.max_epoch", "training.update_freq", "training.clip_norm"),
    *("training.precision", "training.fp16", "training.bf16", "training.seed"),
)
"""Options that `fit` reads, with all of SECTIONS."""


def fit(learner: Learner, dataset: TaskDataset, **options: object) -> list[float]:
    """Train a learner in memory, in this process, and return the loss of each update.

    The options are those of toolkit-train for optimizer, schedule, criterion, batches and length of
    the training, such as `max_epoch=3, lr=1e-3, batch_size=16`. Nothing is written, and no metrics
    are printed: use `toolkit.train` for runs that are logged, validated and resumed.
    """
    examples, run = check_dataset(dataset).examples, compose_training(learner, options)
    device = learner.encoder.token_embedding.weight.device
    world, c = World(device=device), run.training
    max_tokens, batch_size = batch_limits(run.data, 0, device, training=True)
    loader = BatchLoader(
        examples, max_tokens=max_tokens, batch_size=batch_size, seed=c.seed, name="the dataset"
    )
    total = count_total_updates(c, loader.micro_batches, world, TrainingProgress(), loader.words)
    precision = resolve_precision(requested_precision(c), device)
    trainer = Trainer(
        learner,
        CRITERIA[run.criterion.name].factory(run.criterion.config),
        OPTIMIZERS[run.optimizer.name].factory(run.optimizer.config, learner.named_parameters()),
        LR_SCHEDULERS[run.lr_scheduler.name].factory(run.lr_scheduler.config, total),
        world=world,
        precision=Precision.for_training(precision, c, world),
        clip_norm=c.clip_norm,
        update_freq=c.micro_batches_per_rank(1),
        seed=c.seed,
    )
    losses, global_loss = list[Tensor](), trainer.accumulator.global_loss
    trainer.fit(
        lambda epoch: loader,
        max_update=total,
        max_epoch=c.max_epoch,
        callbacks=[lambda step: losses.append(global_loss(step.losses, step.weights))],
    )
    learner.eval()
    return torch.stack(losses).tolist() if losses else []


def compose_training(learner: Learner, options: dict[str, object]) -> RunConfig:
    """The run with these options; others than those of training are errors."""
    names = {"arch": learner.require_origin().arch.name, "task": learner.require_origin().task.name}
    run = compose({**names, **options})
    changed = diff_configs(to_dict(compose(names)), to_dict(run))
    unread = [path for path in changed if path not in OPTIONS and not path.startswith(SECTIONS)]
    unread += [path for path in run.schedules if path not in unread]
    if unread:
        raise ToolkitError(
            f"fit does not read {', '.join(unread)}. Options of the architecture and the task "
            f"belong to build_model; for those of a run use toolkit.train."
        )
    return run


def check_dataset(dataset: object) -> TaskDataset:
    """The dataset; raises for anything else, such as a list of texts."""
    if not isinstance(dataset, TaskDataset):
        raise ToolkitError(
            f"dataset must be one of learner.dataset or learner.open_dataset, but is of type "
            f"{type(dataset).__name__}."
        )
    return dataset


def evaluate(learner: Learner, dataset: TaskDataset, *, batch_size: int = 32) -> Metrics:
    """The loss and the metrics of the task over the dataset, every example once.

    Metrics have the names that toolkit-validate prints. The model reads `batch_size` examples at a
    time, in the precision of its weights.
    """
    check_limits(batch_size=batch_size)
    examples = check_dataset(dataset).examples
    device, was_training = learner.encoder.token_embedding.weight.device, learner.training
    try:
        return evaluate_model(
            learner,
            learner.criterion,
            BatchLoader(examples, max_tokens=None, batch_size=batch_size, seed=0, shuffle=False),
            examples=len(examples),
            world=World(device=device),
            precision=Precision("fp32", device),
            results=learner.task.results(examples),
        )
    finally:
        learner.train(was_training)


RESUMABLE_RUN = replace(RUN, find_saved_run=find_saved_run)


def preprocess(rows: Any = None, **options: object) -> None:
    """Write a data folder, as toolkit-preprocess does, with its options.

    `preprocess(trainpref="a.txt", validpref="b.txt", destdir="data", vocab_size=8000)`.
    `preprocess(rows, destdir="data", label_column="mood")` reads a list of dictionaries, a data
    frame of pandas, or a dataset of Hugging Face, and so does a dictionary of several, by their
    splits: `{"train": rows, "validation": more}`.
    """
    if rows is None:
        preprocessing.preprocess(resolve_mapping(options, PREPROCESS).build_configs()[""])
        return
    if isinstance(rows, str | Path):
        raise ToolkitError(f"the first argument must be rows, not a file. Give trainpref={rows!r}.")
    with TemporaryDirectory() as folder:
        store_rows(rows if isinstance(rows, Mapping) else {"train": rows}, Path(folder))
        try:
            preprocess(format="rows", trainpref=folder, **options)
        except ToolkitError as error:
            message = str(error).replace(folder + os.sep, "").replace(folder, "the data")
            raise ToolkitError(message) from error


def store_rows(splits: Mapping[str, Any], folder: Path) -> None:
    """A folder like that of a saved `DatasetDict`, whose splits may be JSON lines."""
    with name_file(Path("rows"), "Rename the split."):
        convert([*splits], list[FileName])
    (folder / "dataset_dict.json").touch()
    for split, rows in splits.items():
        if hasattr(rows, "save_to_disk"):
            rows.save_to_disk(folder / split)
            continue
        (folder / split).mkdir()
        file = folder / split / "rows.jsonl"
        if hasattr(rows, "to_json"):
            rows.to_json(file, orient="records", lines=True, double_precision=15)
            continue
        with file.open("w") as lines:
            lines.writelines(json.dumps(row, default=to_plain) + "\n" for row in rows)


def to_plain(value: Any) -> Any:
    """A scalar or an array of NumPy in Python's types; anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def train(*data: str | Path, **options: object) -> RunResult:
    """Train on data folders, as toolkit-train does, with its options; returns the last metrics.

    `train("data", arch="bert_tiny", task="mlm", max_update=1000, lr=1e-3, save_dir="run")`. Options
    of a component have its name before a dot, `**{"arch.layers": 2}`, unless they are unambiguous.
    A run that resumes keeps its data and options unless they are given: `train(save_dir="run")`.
    A notebook's cell shows a bar and, with matplotlib, the loss over the updates.
    """
    folders = {"data.dirs": [str(folder) for folder in data]} if data else {}
    config = compose({**folders, **options}, RESUMABLE_RUN)
    shows_curve = in_notebook() and find_spec("matplotlib") is not None
    return run(config, sinks=[LiveCurve(config.checkpoint.save_dir)] if shows_curve else [])

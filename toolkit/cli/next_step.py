"""The command that a user most likely wants after one that has ended."""

from __future__ import annotations

import os
import shlex
import sys

from toolkit.common.registry import TASKS
from toolkit.common.system import PARENT
from toolkit.config.commands.checkpoints import AverageConfig, ImportConfig
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.load import LoadedConfig
from toolkit.config.sections import RunConfig

TRAINING = {
    "text": "composite_bert_small --task mlm --max-update 10000",
    "parallel": "transformer_iwslt --task translation --max-epoch 20",
    **dict.fromkeys(("conllu", "ptb", "columns"), "bert_small --task pos_tagging --max-epoch 10"),
    **dict.fromkeys(("glue", "tsv"), "bert_small --task glue --max-epoch 3"),
    "squad": "bert_small --task squad --max-epoch 3",
    **dict.fromkeys(("race", "swag"), "bert_small --task multiple_choice --max-epoch 3"),
}
"""Format of the data -> architecture, task and length of a first run."""


def print_next(loaded: LoadedConfig) -> None:
    """Print `next: COMMAND` on standard error, unless a program reads what the command prints."""
    is_read = getattr(loaded.config, "json", None) or PARENT in os.environ
    if not is_read and os.environ.get("RANK", "0") == "0" and (command := next_command(loaded)):
        print(f"next: {command}", file=sys.stderr)


def next_command(loaded: LoadedConfig) -> str:
    """The command with the folders of this one; empty after a command that is often the last."""
    match loaded.config:
        case PreprocessConfig(destdir=data, format=format) if format.name in TRAINING:
            return f"toolkit-train {shlex.quote(data)} --arch {TRAINING[format.name]}"
        case RunConfig() as run if "sweep" in loaded.extra:
            sweep, folder = loaded.extra["sweep"], shlex.quote(run.checkpoint.save_dir)
            if run.checkpoint.no_save or sweep.slurm:
                return ""
            if sweep.seeds or sweep.grid:
                return f"toolkit-plot curve {folder}"
            return use_of_model(run.task.name, folder) or (
                f"toolkit-validate {shlex.join(run.data.dirs)} --path {folder}"
            )
        case AverageConfig(output=folder):
            return f"toolkit-validate DATA --path {shlex.quote(folder)}"
        case ImportConfig(paths=[_, folder]):
            return (
                f"toolkit-preprocess --trainpref FILE --tokenizer-from {shlex.quote(folder)} "
                f"--destdir data"
            )
    return ""


def use_of_model(task: str, folder: str) -> str:
    """The command that applies a model to text; empty if none does."""
    factory = TASKS[task].factory
    if factory.generation_mode:
        return f"toolkit-generate {factory.generation_mode} --path {folder}"
    predicts = hasattr(factory, "predictor")
    return f"toolkit-predict --path {folder} --input FILE" if predicts else ""

"""A converted model as a checkpoint: weights alone, no place to go on from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from toolkit import __version__
from toolkit.checkpoints.load import EXTRA_FILE, MODEL, write_config
from toolkit.checkpoints.save_folder import BEST, CHECKPOINT_NAME, LAST, SaveFolder
from toolkit.checkpoints.tensor_files import write_tensors
from toolkit.common.errors import ToolkitError
from toolkit.config.load import compose
from toolkit.config.run import RunConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Sizes
from toolkit.tasks.build import build_learner
from toolkit.tasks.task import Learner

ORIGIN_FILE = "hugging_face.json"
"""In a checkpoint that came from there: its config.json, for the way back."""


@dataclass(frozen=True, kw_only=True)
class ConvertedModel:
    """All that a checkpoint is made of."""

    run: RunConfig
    sizes: Sizes
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """What the model has beside its learner's weights, such as BERT's pooler."""
    origin: Mapping[str, Any] | None = None


def compose_run(arch: str, task: str, options: Mapping[str, Any]) -> RunConfig:
    """The configuration of a run that was none: its architecture and its task, defaults else."""
    return compose(
        {"arch": arch, "task": task, **{f"arch.{name}": it for name, it in options.items()}}
    )


def build_on_meta(run: RunConfig, sizes: Sizes) -> Learner:
    """The learner without memory, for the names and shapes of its tensors."""
    with torch.device("meta"):
        return build_learner(run.arch, run.task, sizes)


def projects_embeddings(arch: Any) -> bool:
    """Whether the embeddings are narrower than the model, with a linear map between."""
    return (arch.embedding_width or arch.width) != arch.width


def check_target(target: Path) -> None:
    """Only a new folder is written."""
    if target.exists() or target.is_symlink():
        raise ToolkitError(
            f"DST must be a new folder, but {target} is there. Choose another, or remove it."
        )
    if CHECKPOINT_NAME.fullmatch(target.name) or target.name in (LAST, BEST):
        raise ToolkitError(
            f"DST must not be called as the checkpoints of a run are, but is {target.name}: a run "
            f"would take it for its own. Choose another name."
        )
    if not target.parent.is_dir():
        raise ToolkitError(
            f"DST must lie in a folder that is there, but {target.parent} is not. Make it."
        )


def write_checkpoint(target: Path, model: ConvertedModel, source: Path) -> None:
    def fill(folder: Path) -> None:
        write_tensors(folder / MODEL, model.tensors)
        if model.extra:
            write_tensors(folder / EXTRA_FILE, model.extra)
        if model.origin is not None:
            text = json.dumps(model.origin, indent=1, sort_keys=True) + "\n"
            (folder / ORIGIN_FILE).write_text(text, "utf-8")
        write_config(folder, model.run, model.sizes)
        model.tokenizer.save(folder)

    facts = {"update": 0, "epoch": 0, "reasons": ["conversion"], "converted": str(source)}
    versions = {"toolkit": __version__, "torch": torch.__version__}
    SaveFolder(target.parent).write(target.name, fill, {**facts, "versions": versions})

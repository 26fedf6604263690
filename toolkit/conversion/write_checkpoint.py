"""Converted models as checkpoints without optimizer state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from toolkit.checkpoints.load import EXTRA_FILE
from toolkit.checkpoints.tensor_files import write_tensors
from toolkit.checkpoints.write_model import write_model
from toolkit.common.json_files import JsonObject, write_json
from toolkit.config.load import compose
from toolkit.config.run import RunConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Sizes
from toolkit.tasks.build import build_learner
from toolkit.tasks.learner import Learner

ORIGIN_FILE = "hugging_face.json"
"""In an imported checkpoint: the config.json of the source, for export."""


@dataclass(frozen=True, kw_only=True)
class ConvertedModel:
    """The contents of the checkpoint."""

    run: RunConfig
    sizes: Sizes
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """Tensors outside the learner, such as BERT's pooler."""
    origin: JsonObject | None = None
    note: str = ""
    """What the conversion left unused."""


def compose_run(
    arch: str, task: str, options: JsonObject, task_options: JsonObject | None = None
) -> RunConfig:
    """A run's configuration with this architecture and task, and defaults otherwise."""
    arch_options = {f"arch.{name}": value for name, value in options.items()}
    tasks = {f"task.{name}": value for name, value in (task_options or {}).items()}
    return compose({"arch": arch, "task": task, **arch_options, **tasks})


def build_on_meta(run: RunConfig, sizes: Sizes) -> Learner:
    """The learner on the meta device, for the names and shapes of its tensors."""
    with torch.device("meta"):
        return build_learner(run.arch, run.task, sizes)


def write_checkpoint(target: Path, model: ConvertedModel, source: Path) -> None:
    """Write a converted model; the manifest names its source."""

    def write_more(folder: Path) -> None:
        if model.extra:
            write_tensors(folder / EXTRA_FILE, model.extra)
        if model.origin is not None:
            write_json(folder / ORIGIN_FILE, model.origin, indent=1, sort_keys=True)

    write_model(
        target,
        model.tensors,
        run=model.run,
        sizes=model.sizes,
        tokenizer=model.tokenizer,
        facts={"reasons": ["conversion"], "converted": str(source)},
        write_more=write_more,
    )

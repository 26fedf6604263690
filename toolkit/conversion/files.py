"""Files of models: folders of Hugging Face Transformers, and converted models as checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from toolkit.checkpoints import manifest
from toolkit.checkpoints.load import EXTRA_FILE
from toolkit.checkpoints.tensor_files import read_tensors, write_tensors
from toolkit.checkpoints.write_model import write_model
from toolkit.common.errors import ToolkitError
from toolkit.common.files import atomic_dir
from toolkit.common.json_files import FileName, JsonObject, read_json, write_json
from toolkit.config.load import compose
from toolkit.config.sections import RunConfig
from toolkit.conversion import torch_file
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Sizes
from toolkit.tasks.build import build_learner
from toolkit.tasks.learner import Learner

CONFIG, TENSORS, INDEX, PICKLED = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
ORIGIN_FILE = "hugging_face.json"
"""In an imported checkpoint: the config.json of the source, for export."""
REMEDY = "Name a folder written by save_pretrained."


@dataclass(frozen=True)
class ShardIndex:
    """The contents of model.safetensors.index.json."""

    weight_map: dict[str, FileName]
    """Tensor -> its file."""


@dataclass(frozen=True, kw_only=True)
class ConvertedModel:
    """The contents of the checkpoint of a converted model."""

    run: RunConfig
    sizes: Sizes
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """Tensors outside the learner, such as BERT's pooler."""
    origin: JsonObject | None = None
    note: str = ""
    """What the conversion left unused."""


def read_config(folder: Path) -> JsonObject:
    """The config.json of a folder; raises a ToolkitError if the folder is no model."""
    reason = "" if (folder / CONFIG).exists() else f"has no {CONFIG}"
    if any((folder / name).exists() for name in (manifest.NAME, "checkpoint_last")):
        reason = "is a checkpoint of the toolkit; for that use toolkit-convert export"
    if reason:
        raise ToolkitError(
            f"SOURCE must be a folder written by save_pretrained, or a .pt file of fairseq, but "
            f"{folder} {reason}."
        )
    return read_json(folder / CONFIG, JsonObject, REMEDY)


def read_all_tensors(folder: Path) -> tuple[dict[str, Tensor], str]:
    """All tensors and the name of their file; safetensors are preferred over pickles."""
    if (folder / TENSORS).exists():
        return read_tensors(folder / TENSORS), TENSORS
    if (folder / INDEX).exists():
        return read_shards(folder), INDEX
    if not (folder / PICKLED).exists():
        raise ToolkitError(
            f"{folder} must hold {TENSORS} or {PICKLED}, but has neither. Name a folder "
            f"written by save_pretrained."
        )
    path = folder / PICKLED
    return torch_file.name_tensors(torch_file.load(path), path), PICKLED


def read_shards(folder: Path) -> dict[str, Tensor]:
    """Tensors of several files in the folder, as listed by an index."""
    index = read_json(folder / INDEX, ShardIndex, REMEDY)
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(index.weight_map.values())):
        tensors |= read_tensors(folder / name)
    return tensors


def write_folder(target: Path, fill: Callable[[Path], object]) -> None:
    """Fill a temporary folder and rename it, so that it is complete or absent."""
    try:
        with atomic_dir(target, sync=True) as temporary:
            fill(temporary)
    except (OSError, SafetensorError) as error:
        raise ToolkitError(
            f"DESTINATION must be a writable folder, but {target} is not: {error}. Make room, or "
            f"choose another folder."
        ) from error


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

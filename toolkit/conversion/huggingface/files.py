"""Model folders of Hugging Face Transformers: config.json and tensors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from toolkit.checkpoints import manifest
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common.atomic import atomic_dir
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import FileName, JsonObject, read_json, write_json
from toolkit.conversion import torch_file
from toolkit.conversion.huggingface.deberta import DEBERTA, choose_head, name_head
from toolkit.conversion.huggingface.model_type import ModelType
from toolkit.conversion.huggingface.model_types import DIFFERENCES, MODEL_TYPES

CONFIG, TENSORS, INDEX, PICKLED = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
BUFFERS = re.compile(r"(.*\.)?embeddings\.(position_ids|token_type_ids)")
"""Buffers of old files, which are not weights."""


REMEDY = "Name a folder written by save_pretrained."


@dataclass(frozen=True)
class ShardIndex:
    """The contents of model.safetensors.index.json."""

    weight_map: dict[str, FileName]
    """Tensor -> its file."""


@dataclass(frozen=True)
class HfModelFiles:
    """Config and tensors of a folder, without the model's prefix."""

    folder: Path
    model_type: ModelType
    config: JsonObject
    tensors: dict[str, Tensor]
    file: str


def read_model(folder: Path) -> HfModelFiles:
    """The config and tensors of a folder, with tensor names in their current form."""
    config = read_config(folder)
    model_type = find_model_type(config, folder)
    saved, file = read_all_tensors(folder)
    if model_type is DEBERTA:
        config = name_head(config, saved)
        model_type = choose_head(model_type, config)
    tensors = {}
    for name, tensor in saved.items():
        plain = name.removeprefix(model_type.prefix)
        for old, new in OLD_NAMES.items():
            plain = plain.replace(old, new)
        if not BUFFERS.fullmatch(plain):
            tensors[f"{plain}, twice" if plain in tensors else plain] = tensor
    return HfModelFiles(folder, model_type, config, tensors, file)


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


def find_model_type(config: JsonObject, folder: Path) -> ModelType:
    """The supported model type that a config names; raises a ToolkitError for others."""
    name = config.get("model_type")
    if name is None and any(str(key).startswith("num_hidden") for key in config):
        name = "bert"  # folders released by Google do not name it
    if not isinstance(name, str) or name not in MODEL_TYPES:
        raise ToolkitError(
            f"the model_type in {folder / CONFIG} must be one of {', '.join(MODEL_TYPES)}, but is "
            f"{name!r}. {DIFFERENCES.get(str(name), 'Other models are not supported.')}"
        )
    return MODEL_TYPES[name]


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


def write_config(folder: Path, config: JsonObject) -> None:
    """Write config.json into a folder."""
    write_json(folder / CONFIG, config, indent=2, sort_keys=True)


def write_tensors(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write safetensors with the format entry that Transformers requires."""
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, folder / TENSORS, {"format": "pt"})


def write_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Fill a temporary folder and rename it, so that it is complete or absent."""
    try:
        with atomic_dir(target, sync=True) as temporary:
            fill(temporary)
    except (OSError, SafetensorError) as error:
        raise ToolkitError(
            f"DESTINATION must be a writable folder, but {target} is not: {error}. Make room, or "
            f"choose another folder."
        ) from error


def main_dtype(tensors: Mapping[str, Tensor]) -> str:
    """The most frequent dtype, as spelled in config.json."""
    counts: Counter[torch.dtype] = Counter()
    for tensor in tensors.values():
        counts[tensor.dtype] += tensor.numel()
    return str(counts.most_common(1)[0][0]).removeprefix("torch.")

"""Model folders of Hugging Face Transformers: config.json and tensors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from toolkit.checkpoints import manifest
from toolkit.checkpoints.save_folder import try_delete
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common.atomic import delete, sync_to_disk
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json
from toolkit.conversion import torch_file
from toolkit.conversion.huggingface.model_types import MODEL_TYPES, ModelType

CONFIG, TENSORS, INDEX, PICKLED = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
BUFFERS = re.compile(r"(.*\.)?embeddings\.(position_ids|token_type_ids)")
"""Buffers of old files, which are not weights."""


@dataclass(frozen=True)
class HfModelFiles:
    """Config and tensors of a folder, without the model's prefix."""

    folder: Path
    model_type: ModelType
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    file: str


def read_model(folder: Path) -> HfModelFiles:
    config = read_config(folder)
    model_type = find_model_type(config, folder)
    found, file = read_all_tensors(folder)
    prefix = f"{model_type.model_type}."
    tensors = {}
    for name, tensor in found.items():
        plain = name.removeprefix(prefix)
        for old, new in OLD_NAMES.items():
            plain = plain.replace(old, new)
        if not BUFFERS.fullmatch(plain):
            tensors[f"{plain}, twice" if plain in tensors else plain] = tensor
    return HfModelFiles(folder, model_type, config, tensors, file)


def read_config(folder: Path) -> dict[str, Any]:
    if (folder / manifest.NAME).exists() or not (folder / CONFIG).exists():
        kind = "is a checkpoint of the toolkit; for that use --to hf"
        raise ToolkitError(
            f"SRC must be a folder written by save_pretrained, or a .pt file of fairseq, but "
            f"{folder} {kind if (folder / manifest.NAME).exists() else f'has no {CONFIG}'}."
        )
    try:
        config = read_json(folder / CONFIG)
    except (OSError, ValueError) as error:
        raise ToolkitError(
            f"{folder / CONFIG} must be a readable JSON file, but is not ({error}). Name a folder "
            f"written by save_pretrained."
        ) from error
    if not isinstance(config, dict):
        raise ToolkitError(f"{folder / CONFIG} must hold a JSON object, but holds something else.")
    return config


def find_model_type(config: Mapping[str, Any], folder: Path) -> ModelType:
    found = config.get("model_type")
    if found is None and any(str(key).startswith("num_hidden") for key in config):
        found = "bert"  # Google's own folders do not name it
    if not isinstance(found, str) or found not in MODEL_TYPES:
        raise ToolkitError(
            f"the model_type in {folder / CONFIG} must be one of {', '.join(MODEL_TYPES)}, but is "
            f"{found!r}. Other models are not supported."
        )
    return MODEL_TYPES[found]


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
    found = torch_file.load(folder / PICKLED)
    if not isinstance(found, dict) or not all(isinstance(t, Tensor) for t in found.values()):
        raise ToolkitError(
            f"{folder / PICKLED} must contain named tensors, but contains other objects."
        )
    return {str(name): tensor for name, tensor in found.items()}, PICKLED


def read_shards(folder: Path) -> dict[str, Tensor]:
    """Tensors of several files in the folder, as listed by an index."""
    try:
        names = set(read_json(folder / INDEX)["weight_map"].values())
        own = all(isinstance(name, str) and Path(name).name == name for name in names)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        own = False
    if not own:
        raise ToolkitError(
            f"{folder / INDEX} must list files of the same folder in its weight_map, but does not."
        )
    found: dict[str, Tensor] = {}
    for name in sorted(names):
        found |= read_tensors(folder / name)
    return found


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (folder / CONFIG).write_text(text, encoding="utf-8")


def write_tensors(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write safetensors with the format entry that Transformers requires."""
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    save_file(whole, folder / TENSORS, {"format": "pt"})


def write_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Fill a temporary folder and rename it, so that it is complete or absent."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        delete(temporary)
        temporary.mkdir()
        fill(temporary)
        for file in temporary.iterdir():
            sync_to_disk(file)
        temporary.rename(target)
        sync_to_disk(target.parent)
    except (OSError, SafetensorError) as error:
        raise ToolkitError(
            f"DST must be a writable folder, but {target} is not: {error}. Make room, or choose "
            f"another folder."
        ) from error
    finally:
        try_delete(temporary)


def main_dtype(tensors: Mapping[str, Tensor]) -> str:
    """The most frequent dtype, as spelled in config.json."""
    counts: dict[torch.dtype, int] = {}
    for tensor in tensors.values():
        counts[tensor.dtype] = counts.get(tensor.dtype, 0) + tensor.numel()
    return str(max(counts, key=lambda kind: counts[kind])).removeprefix("torch.")

"""Import of a folder of Hugging Face Transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from toolkit.conversion import mismatches
from toolkit.conversion.huggingface import config_mapping, files
from toolkit.conversion.huggingface.files import HfModelFiles
from toolkit.conversion.huggingface.model_types import ModelType
from toolkit.conversion.huggingface.tokenizer_import import load_tokenizer
from toolkit.conversion.mismatches import Mismatch
from toolkit.conversion.tensor_mapping import expected_shapes
from toolkit.conversion.write_checkpoint import (
    ConvertedModel,
    build_on_meta,
    compose_run,
    projects_embeddings,
)
from toolkit.models.interface import Sizes

DROPPED_SETTINGS = ("auto_map", "custom_pipelines", "_name_or_path", "quantization_config")
"""Settings that refer to code or other locations; they are not kept."""


def import_folder(folder: Path) -> ConvertedModel:
    """The model of a folder, after all settings and tensors have been checked."""
    source = files.read_model(folder)
    model_type, config = source.model_type, source.config
    mismatches.check_none(
        folder,
        config_mapping.config_mismatches(model_type, config) + layer_count_mismatches(source),
    )
    head = any(name.startswith(model_type.head) for name in source.tensors)
    run = compose_run(
        model_type.arch,
        "mlm" if head else "encode",
        config_mapping.arch_options(model_type, config),
    )
    sizes = Sizes(tokens=config.get("vocab_size", model_type.defaults["vocab_size"]))
    arch: Any = run.arch.config
    mappings = model_type.mappings(arch.layers, projected=projects_embeddings(arch), head=head)
    model, extra, repeated = split_tensors(model_type, source.tensors)
    needed = expected_shapes(mappings, build_on_meta(run, sizes).state_dict())
    found = mismatches.compare_tensors(model, needed, source.file)
    mismatches.check_none(
        folder, found + tying_mismatches(model_type, model, repeated, source.file)
    )
    return ConvertedModel(
        run=run,
        sizes=sizes,
        tensors={mapping.toolkit_name: mapping.join(model) for mapping in mappings},
        tokenizer=load_tokenizer(folder, sizes["tokens"]),
        extra=extra,
        origin={key: value for key, value in config.items() if key not in DROPPED_SETTINGS},
    )


def layer_count_mismatches(source: HfModelFiles) -> list[Mismatch]:
    """A mismatch if the config names more layers than there are tensors."""
    asked = source.config.get("num_hidden_layers", 0)
    if isinstance(asked, int) and asked > len(source.tensors):
        where = f"{files.CONFIG}: num_hidden_layers"
        return [Mismatch("setting", where, str(asked), f"layers of {len(source.tensors)} tensors")]
    return []


def split_tensors(
    model_type: ModelType, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Tensors of the learner (external names), extra ones (our names) and tied copies."""
    model: dict[str, Tensor] = {}
    extra: dict[str, Tensor] = {}
    repeated: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        toolkit_name = model_type.toolkit_name(name)
        if name in model_type.tied:
            repeated[name] = tensor
        elif toolkit_name is not None:
            extra[toolkit_name] = tensor
        else:
            model[name] = tensor
    return model, extra, repeated


def tying_mismatches(
    model_type: ModelType, model: Mapping[str, Tensor], repeated: Mapping[str, Tensor], file: str
) -> list[Mismatch]:
    """Copies of tied tensors that differ from the original."""
    found = []
    for name, tensor in repeated.items():
        other = model_type.tied[name]
        if other not in model or not torch.equal(tensor, model[other]):
            found.append(Mismatch("untied tensor", f"{file}: {name}", "others", f"as {other}"))
    return found

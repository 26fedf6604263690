"""From a folder of Hugging Face Transformers to a checkpoint of ours."""

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
"""What a config.json may say about code and places elsewhere; it is not handed on."""


def import_folder(folder: Path) -> ConvertedModel:
    """The model of a folder, after everything in it has been compared with what must be there."""
    source = files.read_model(folder)
    family, config = source.model_type, source.config
    mismatches.check_none(
        folder, config_mapping.config_mismatches(family, config) + layer_count_mismatches(source)
    )
    head = any(name.startswith(family.head) for name in source.tensors)
    run = compose_run(
        family.arch, "mlm" if head else "encode", config_mapping.arch_options(family, config)
    )
    sizes = Sizes(tokens=config.get("vocab_size", family.defaults["vocab_size"]))
    arch: Any = run.arch.config
    pieces = family.mappings(arch.layers, projected=projects_embeddings(arch), head=head)
    model, spare, repeated = split_tensors(family, source.tensors)
    needed = expected_shapes(pieces, build_on_meta(run, sizes).state_dict())
    found = mismatches.compare_tensors(model, needed, source.file)
    mismatches.check_none(folder, found + tying_mismatches(family, model, repeated, source.file))
    return ConvertedModel(
        run=run,
        sizes=sizes,
        tensors={piece.toolkit_name: piece.join(model) for piece in pieces},
        tokenizer=load_tokenizer(folder, sizes["tokens"]),
        extra=spare,
        origin={key: value for key, value in config.items() if key not in DROPPED_SETTINGS},
    )


def layer_count_mismatches(source: HfModelFiles) -> list[Mismatch]:
    """A config that asks for more layers than there are tensors would build a giant for nothing."""
    asked = source.config.get("num_hidden_layers", 0)
    if isinstance(asked, int) and asked > len(source.tensors):
        where = f"{files.CONFIG}: num_hidden_layers"
        return [Mismatch("setting", where, str(asked), f"layers of {len(source.tensors)} tensors")]
    return []


def split_tensors(
    family: ModelType, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """The learner's (under their names), what lies beside it (under ours), and the repeated."""
    model: dict[str, Tensor] = {}
    spare: dict[str, Tensor] = {}
    repeated: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        ours = family.toolkit_name(name)
        if name in family.tied:
            repeated[name] = tensor
        elif ours is not None:
            spare[ours] = tensor
        else:
            model[name] = tensor
    return model, spare, repeated


def tying_mismatches(
    family: ModelType, model: Mapping[str, Tensor], repeated: Mapping[str, Tensor], file: str
) -> list[Mismatch]:
    """Repeated tensors that are not what they must repeat: here the two are one."""
    found = []
    for name, tensor in repeated.items():
        other = family.tied[name]
        if other not in model or not torch.equal(tensor, model[other]):
            found.append(Mismatch("untied tensor", f"{file}: {name}", "others", f"as {other}"))
    return found

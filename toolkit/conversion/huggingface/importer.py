"""From a folder of Hugging Face Transformers to a checkpoint of ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from toolkit.conversion import mismatches
from toolkit.conversion.huggingface import config_mapping, files
from toolkit.conversion.huggingface.files import Source
from toolkit.conversion.huggingface.model_types import Family
from toolkit.conversion.huggingface.tokenizer_import import codec_of
from toolkit.conversion.mismatches import Problem
from toolkit.conversion.tensor_mapping import expected
from toolkit.conversion.write_checkpoint import Converted, empty, run_of, widened
from toolkit.models.interface import Sizes

UNSAFE = ("auto_map", "custom_pipelines", "_name_or_path", "quantization_config")
"""What a config.json may say about code and places elsewhere; it is not handed on."""


def converted(folder: Path) -> Converted:
    """The model of a folder, after everything in it has been compared with what must be there."""
    source = files.read(folder)
    family, config = source.family, source.config
    mismatches.refuse(folder, config_mapping.unlike(family, config) + too_many_layers(source))
    head = any(name.startswith(family.head) for name in source.tensors)
    run = run_of(family.arch, "mlm" if head else "encode", config_mapping.options(family, config))
    sizes = Sizes(tokens=config.get("vocab_size", family.defaults["vocab_size"]))
    arch: Any = run.arch.config
    pieces = family.pieces(arch.layers, widened=widened(arch), head=head)
    model, spare, repeated = parted(family, source.tensors)
    needed = expected(pieces, empty(run, sizes).state_dict())
    found = mismatches.tensors(model, needed, source.file)
    mismatches.refuse(folder, found + untied(family, model, repeated, source.file))
    return Converted(
        run=run,
        sizes=sizes,
        tensors={piece.ours: piece.joined(model) for piece in pieces},
        codec=codec_of(folder, sizes.tokens),
        spare=spare,
        origin={key: value for key, value in config.items() if key not in UNSAFE},
    )


def too_many_layers(source: Source) -> list[Problem]:
    """A config that asks for more layers than there are tensors would build a giant for nothing."""
    asked = source.config.get("num_hidden_layers", 0)
    if isinstance(asked, int) and asked > len(source.tensors):
        where = f"{files.CONFIG}: num_hidden_layers"
        return [Problem("setting", where, str(asked), f"layers of {len(source.tensors)} tensors")]
    return []


def parted(
    family: Family, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """The learner's (under their names), what lies beside it (under ours), and the repeated."""
    model: dict[str, Tensor] = {}
    spare: dict[str, Tensor] = {}
    repeated: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        ours = family.ours_of(name)
        if name in family.tied:
            repeated[name] = tensor
        elif ours is not None:
            spare[ours] = tensor
        else:
            model[name] = tensor
    return model, spare, repeated


def untied(
    family: Family, model: Mapping[str, Tensor], repeated: Mapping[str, Tensor], file: str
) -> list[Problem]:
    """Repeated tensors that are not what they must repeat: here the two are one."""
    found = []
    for name, tensor in repeated.items():
        other = family.tied[name]
        if other not in model or not torch.equal(tensor, model[other]):
            found.append(Problem("untied tensor", f"{file}: {name}", "others", f"as {other}"))
    return found

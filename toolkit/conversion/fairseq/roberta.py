"""Import of fairseq's RoBERTa: a .pt file with tensors and settings, and dict.txt.

RoBERTa (Liu et al. 2019) is BERT without token types, with norms of another epsilon, and with
positions that start after the padding id.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.conversion import mismatches, torch_file
from toolkit.conversion.fairseq import config_mapping
from toolkit.conversion.fairseq.tokenizer import load_tokenizer
from toolkit.conversion.huggingface.model_type import ENCODER, HEAD
from toolkit.conversion.mismatches import Mismatch
from toolkit.conversion.tensor_mapping import TensorMapping, affine_mappings, expected_shapes
from toolkit.conversion.write_checkpoint import ConvertedModel, build_on_meta, compose_run
from toolkit.models.interface import Sizes

MODEL_FILE = "model.pt"  # in released folders
WORDS, POSITIONS, TIED = "embed_tokens.weight", "embed_positions.weight", "lm_head.weight"
FIRST_POSITION = 2
"""Positions start after the padding id 1; rows 0 and 1 are unused."""
TYPES = f"{ENCODER}.embeddings.types.weight"
OLD_NAMES = {"emb_layer_norm.": "layernorm_embedding."}
CLASSIFIERS = "classification_heads."


def find_file(source: Path) -> Path | None:
    """The .pt file of a path; None if it is not a fairseq checkpoint."""
    if source.is_file():
        return source
    file = source / MODEL_FILE
    return file if file.is_file() and not (source / "config.json").exists() else None


def import_file(path: Path) -> ConvertedModel:
    """The model of a .pt file, after all settings and tensors have been checked."""
    checkpoint = torch_file.load(path, settings=True)
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
        raise ToolkitError(
            f"{path} must be a fairseq checkpoint with tensors under `model`, but is not. Name a "
            f"checkpoint of fairseq-train or a RoBERTa release."
        )
    settings = config_mapping.read_settings(checkpoint, path)
    tensors, extra = split_tensors(torch_file.name_tensors(checkpoint["model"], path))
    mismatches.check_none(
        path,
        config_mapping.setting_mismatches(settings)
        + missing_tables(tensors, path.name)
        + mismatches.compare_layers("encoder_layers", settings.get("encoder_layers"), tensors),
    )
    options = config_mapping.arch_options(settings, len(tensors[POSITIONS]) - FIRST_POSITION)
    run, sizes = compose_run("bert", "mlm", options), Sizes(tokens=len(tensors[WORDS]))
    on_meta = build_on_meta(run, sizes).state_dict()
    mappings = encoder_mappings(options["layers"]) + head_mappings()
    tied = tensors.pop(TIED, tensors[WORDS])
    required = expected_shapes(mappings, on_meta)
    mismatches.check_none(path, mismatches.compare_tensors(tensors, required, path.name))
    if not mismatches.is_equal(tied, tensors[WORDS]):
        mismatches.check_none(path, [Mismatch("untied tensor", TIED, "others", f"as {WORDS}")])
    model = {mapping.toolkit_name: mapping.join(tensors) for mapping in mappings}
    model[TYPES] = torch.zeros(on_meta[TYPES].shape, dtype=model[f"{HEAD}.bias"].dtype)
    tokenizer = load_tokenizer(path, sizes["tokens"])
    return ConvertedModel(run=run, sizes=sizes, tensors=model, tokenizer=tokenizer, extra=extra)


def split_tensors(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Tensors of the model without their prefix, and those of classification heads."""
    model: dict[str, Tensor] = {}
    extra: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        name = key.removeprefix("encoder.").removeprefix("decoder.")
        name = name.removeprefix("sentence_encoder.")
        for old, new in OLD_NAMES.items():
            name = name.replace(old, new)
        if name.startswith(CLASSIFIERS):
            extra[f"fairseq.{name}"] = tensor
        elif name.count(".in_proj_") == 1 and tensor.dim() and len(tensor) % 3 == 0:
            model |= split_projection(name, tensor)
        elif name != "version":
            model[name] = tensor
    return model, extra


def split_projection(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Split the joint projection of queries, keys and values of files from 2019."""
    before, part = name.split(".in_proj_")
    return dict(zip((f"{before}.{p}_proj.{part}" for p in "qkv"), tensor.chunk(3), strict=True))


def missing_tables(tensors: Mapping[str, Tensor], file: str) -> list[Mismatch]:
    """Mismatches of the two embedding tables, which determine the sizes of all others."""
    return [
        Mismatch("missing tensor", f"{file}: {name}", "-", "a table")
        for name in (WORDS, POSITIONS)
        if name not in tensors or tensors[name].dim() != 2
    ]


def encoder_mappings(layers: int) -> list[TensorMapping]:
    """The tensors of RoBERTa's encoder in fairseq."""
    embeddings = f"{ENCODER}.embeddings"
    mappings = [
        TensorMapping(f"{embeddings}.words.weight", (WORDS,)),
        TensorMapping(f"{embeddings}.positions.weight", (POSITIONS,), skipped_rows=FIRST_POSITION),
        *affine_mappings(f"{embeddings}.norm", "layernorm_embedding"),
    ]
    for number in range(layers):
        layer, external = f"{ENCODER}.layers.{number}", f"layers.{number}"
        projections = (f"{external}.self_attn.{part}_proj" for part in "qkv")
        mappings += [
            *affine_mappings(f"{layer}.attention.project.qkv", *projections),
            *affine_mappings(f"{layer}.attention.output", f"{external}.self_attn.out_proj"),
            *affine_mappings(f"{layer}.after_attention.norm", f"{external}.self_attn_layer_norm"),
            *affine_mappings(f"{layer}.feed_forward.wide", f"{external}.fc1"),
            *affine_mappings(f"{layer}.feed_forward.back", f"{external}.fc2"),
            *affine_mappings(f"{layer}.after_feed_forward.norm", f"{external}.final_layer_norm"),
        ]
    return mappings


def head_mappings() -> list[TensorMapping]:
    """The tensors of RoBERTa's masked language modeling head in fairseq."""
    return [
        *affine_mappings(f"{HEAD}.transform", "lm_head.dense"),
        *affine_mappings(f"{HEAD}.norm", "lm_head.layer_norm"),
        TensorMapping(f"{HEAD}.bias", ("lm_head.bias",)),
    ]

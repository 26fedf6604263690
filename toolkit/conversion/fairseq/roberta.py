"""RoBERTa as fairseq saved it: tensors and settings of a .pt file, dict.txt beside it.

RoBERTa (Liu et al. 2019) is BERT without token types, with norms of another epsilon, and with
positions that are counted from behind the padding symbol.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.conversion import mismatches, torch_file
from toolkit.conversion.fairseq import config_mapping
from toolkit.conversion.fairseq.tokenizer import codec_beside
from toolkit.conversion.huggingface.model_types import ENCODER, HEAD
from toolkit.conversion.mismatches import Problem
from toolkit.conversion.tensor_mapping import Piece, affine, expected
from toolkit.conversion.write_checkpoint import Converted, empty, run_of
from toolkit.models.interface import Sizes

MODEL_FILE = "model.pt"  # what released folders call it
WORDS, POSITIONS, TIED = "embed_tokens.weight", "embed_positions.weight", "lm_head.weight"
FIRST_POSITION = 2
"""Positions are counted from the padding symbol's id, 1, on; rows 0 and 1 are never read."""
TYPES = f"{ENCODER}.embeddings.types.weight"
OLD_NAMES = {"emb_layer_norm.": "layernorm_embedding."}
CLASSIFIERS = "classification_heads."


def file_of(source: Path) -> Path | None:
    """The .pt file that a path means; None where it means something else."""
    if source.is_file():
        return source
    found = source / MODEL_FILE
    return found if found.is_file() and not (source / "config.json").exists() else None


def converted(path: Path) -> Converted:
    """The model of a .pt file, after everything in it has been compared with what must be there."""
    found = torch_file.load(path, settings=True)
    if not isinstance(found, dict) or not isinstance(found.get("model"), dict):
        raise ToolkitError(
            f"{path} must hold a checkpoint of fairseq, with its tensors under model, but does "
            f"not. Name a file that fairseq-train or a release of RoBERTa wrote."
        )
    settings = config_mapping.of(found, path)
    tensors, spare = parted(found["model"], path)
    mismatches.refuse(path, config_mapping.unlike(settings) + lost(tensors, path.name))
    shape = config_mapping.shape(settings, len(tensors[POSITIONS]) - FIRST_POSITION)
    run, sizes = run_of("bert", "mlm", shape), Sizes(tokens=len(tensors[WORDS]))
    own, pieces = empty(run, sizes).state_dict(), trunk(shape["layers"]) + head()
    needed = expected(pieces, own)
    repeated = tensors.pop(TIED, tensors[WORDS])
    mismatches.refuse(path, mismatches.tensors(tensors, needed, path.name))
    if not torch.equal(repeated, tensors[WORDS]):
        mismatches.refuse(path, [Problem("untied tensor", TIED, "others", f"as {WORDS}")])
    model = {piece.ours: piece.joined(tensors) for piece in pieces}
    model[TYPES] = torch.zeros(own[TYPES].shape, dtype=model[f"{HEAD}.bias"].dtype)
    codec = codec_beside(path, sizes.tokens)
    return Converted(run=run, sizes=sizes, tensors=model, codec=codec, spare=spare)


def parted(found: Mapping[Any, Any], path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The model's tensors without their prefix, and those of classifiers trained on it."""
    model: dict[str, Tensor] = {}
    spare: dict[str, Tensor] = {}
    for key, tensor in found.items():
        if not isinstance(key, str) or not isinstance(tensor, Tensor):
            raise ToolkitError(f"{path} must hold tensors by name under model, but holds others.")
        name = key.removeprefix("encoder.").removeprefix("decoder.")
        name = name.removeprefix("sentence_encoder.")
        for old, new in OLD_NAMES.items():
            name = name.replace(old, new)
        if name.startswith(CLASSIFIERS):
            spare[f"fairseq.{name}"] = tensor
        elif name.count(".in_proj_") == 1 and tensor.dim() and len(tensor) % 3 == 0:
            model |= three(name, tensor)
        elif name != "version":
            model[name] = tensor
    return model, spare


def three(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Queries, keys and values, which files of 2019 keep together."""
    before, part = name.split(".in_proj_")
    return dict(zip((f"{before}.{p}_proj.{part}" for p in "qkv"), tensor.chunk(3), strict=True))


def lost(tensors: Mapping[str, Tensor], file: str) -> list[Problem]:
    """The two tables say how large the rest must be, so they are looked for first."""
    return [
        Problem("missing tensor", f"{file}: {name}", "-", "a table")
        for name in (WORDS, POSITIONS)
        if name not in tensors or tensors[name].dim() != 2
    ]


def trunk(layers: int) -> list[Piece]:
    ours = f"{ENCODER}.embeddings"
    found = [
        Piece(f"{ours}.words.weight", (WORDS,)),
        Piece(f"{ours}.positions.weight", (POSITIONS,), skipped=FIRST_POSITION),
        *affine(f"{ours}.norm", "layernorm_embedding"),
    ]
    for number in range(layers):
        ours, theirs = f"{ENCODER}.layers.{number}", f"layers.{number}"
        projections = (f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        found += [
            *affine(f"{ours}.attention.project.together", *projections),
            *affine(f"{ours}.attention.output", f"{theirs}.self_attn.out_proj"),
            *affine(f"{ours}.after_attention.norm", f"{theirs}.self_attn_layer_norm"),
            *affine(f"{ours}.feed_forward.wide", f"{theirs}.fc1"),
            *affine(f"{ours}.feed_forward.back", f"{theirs}.fc2"),
            *affine(f"{ours}.after_feed_forward.norm", f"{theirs}.final_layer_norm"),
        ]
    return found


def head() -> list[Piece]:
    return [
        *affine(f"{HEAD}.transform", "lm_head.dense"),
        *affine(f"{HEAD}.norm", "lm_head.layer_norm"),
        Piece(f"{HEAD}.bias", ("lm_head.bias",)),
    ]

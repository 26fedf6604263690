"""Import of fairseq's RoBERTa: a .pt file with tensors and settings, and dict.txt.

RoBERTa (Liu et al. 2019) is BERT without token types, with norms of another epsilon, and with
positions that start after the padding id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer as HfTokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes
from toolkit.common.json_files import MAX_BYTES, Count, JsonObject, read_json
from toolkit.conversion import tensors, tokenizer_files
from toolkit.conversion.architectures import config_mismatches
from toolkit.conversion.files import ConvertedModel, OpaqueObject, load_torch_file, name_tensors
from toolkit.conversion.heads import ImportedHead
from toolkit.conversion.model_types import ModelType
from toolkit.conversion.native_classes import assemble
from toolkit.conversion.tensors import Mismatch
from toolkit.data.tokenizers.huggingface import HuggingFaceTokenizer
from toolkit.data.tokenizers.sentencepiece import parse_model
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

MODEL_FILE = "model.pt"  # in released folders
WORDS, POSITIONS = "embed_tokens.weight", "embed_positions.weight"
FIRST_POSITION = 2
"""Positions start after the padding id 1; rows 0 and 1 are unused."""
TYPES = "encoder.embeddings.types.weight"
ROBERTA = ModelType(
    model_type="roberta",
    prefix="",
    class_prefix="",
    arch="bert",
    settings={
        "encoder_layers": "layers",
        "encoder_embed_dim": "width",
        "encoder_attention_heads": "heads",
        "encoder_ffn_embed_dim": "feed_forward_width",
        **{name: name for name in ("dropout", "attention_dropout", "max_positions")},
        **{name: name for name in ("token_types", "norm_epsilon")},
    },
    defaults={
        **{"encoder_layers": 12, "encoder_embed_dim": 768, "encoder_attention_heads": 12},
        **{"encoder_ffn_embed_dim": 3072, "dropout": 0.1, "attention_dropout": 0.1},
        **{"max_positions": 512, "token_types": 1, "norm_epsilon": 1e-5},
    },
    fixed={
        "activation_fn": ("gelu", None),
        "encoder_normalize_before": (False, None),
        "untie_weights_roberta": (False, None),
        "no_token_positional_embeddings": (False, None),
        "no_scale_embedding": (True, None),
    },
    encoder={
        "encoder.embeddings.words": "embed_tokens",
        "encoder.embeddings.positions": "embed_positions",
        "encoder.embeddings.norm": "layernorm_embedding",
        "encoder.layers.*.attention.project.qkv": "layers.*.self_attn.{q k v}_proj",
        "encoder.layers.*.attention.output": "layers.*.self_attn.out_proj",
        "encoder.layers.*.after_attention.norm": "layers.*.self_attn_layer_norm",
        "encoder.layers.*.feed_forward.wide": "layers.*.fc1",
        "encoder.layers.*.feed_forward.back": "layers.*.fc2",
        "encoder.layers.*.after_feed_forward.norm": "layers.*.final_layer_norm",
    },
    head={
        "task.head.transform": "lm_head.dense",
        "task.head.norm": "lm_head.layer_norm",
        "task.head": "lm_head",
    },
    shapes={"encoder.embeddings.positions.weight": {"skipped_rows": FIRST_POSITION}},
    tied={"lm_head.weight": WORDS},
    extra={"classification_heads.": "fairseq.classification_heads."},
)
"""Settings are those of fairseq, which older files omit if they have the supported value."""
SIZES = ("encoder_layers", "encoder_embed_dim", "encoder_attention_heads", "encoder_ffn_embed_dim")
"""Settings that every file has."""
SCALARS = (bool, int, float, str, type(None))
DICTIONARY_FILE = "dict.txt"
BYTE_LEVEL = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))
"""File names of GPT-2's BPE: the original ones and those of Transformers."""
NORMAL = 1  # SentencePiece's type of ordinary pieces
UNIGRAM = ("sentencepiece.bpe.model", "sentencepiece.model")


def import_file(path: Path) -> ConvertedModel:
    """The model of a .pt file, after all settings and tensors have been checked."""
    checkpoint = load_torch_file(path, settings=True)
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
        raise ToolkitError(
            f"{path} must be a fairseq checkpoint with tensors under `model`, but is not. Name a "
            f"checkpoint of fairseq-train or a RoBERTa release."
        )
    found = modern_names(name_tensors(checkpoint["model"], path))
    missing = [
        Mismatch("missing tensor", f"{path.name}: {name}", "-", "a table")
        for name in (WORDS, POSITIONS)  # they determine the sizes of all others
        if name not in found or found[name].dim() != 2
    ]
    tensors.check_none(path, missing)
    config = dict.fromkeys(SIZES) | read_settings(checkpoint, path)
    config |= {"max_positions": len(found[POSITIONS]) - FIRST_POSITION}
    tensors.check_none(path, config_mismatches(ROBERTA, config, found, "encoder_layers"))
    tokenizer, head = read_tokenizer(path, len(found[WORDS])), ImportedHead(task="mlm")
    model = assemble(path, path.name, ROBERTA, config, found, tokenizer, head)
    types = torch.zeros(1, found[WORDS].shape[1], dtype=found[WORDS].dtype)
    return replace(model, tensors={**model.tensors, TYPES: types}, origin=None)


def modern_names(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by their current names, without the prefixes of the model."""
    model: dict[str, Tensor] = {}
    for key, tensor in found.items():
        name = key.removeprefix("encoder.").removeprefix("decoder.")
        name = name.removeprefix("sentence_encoder.")
        name = name.replace("emb_layer_norm.", "layernorm_embedding.")  # in old files
        if name.count(".in_proj_") == 1 and tensor.dim() and len(tensor) % 3 == 0:
            before, part = name.split(".in_proj_")  # files from 2019 join the projections
            names = (f"{before}.{letter}_proj.{part}" for letter in "qkv")
            model |= zip(names, tensor.chunk(3), strict=True)
        elif name != "version":
            model[name] = tensor
    return model


def read_settings(checkpoint: JsonObject, path: Path) -> JsonObject:
    """The model's settings, under cfg.model or args, depending on fairseq's version."""
    config = unwrap(checkpoint.get("cfg"))
    model = unwrap(config.get("model")) if isinstance(config, dict) else None
    settings = model if isinstance(model, dict) and model else unwrap(checkpoint.get("args"))
    if not isinstance(settings, dict):
        raise ToolkitError(
            f"{path} must contain the model's settings under args or cfg, but does not. Name a "
            f"checkpoint of fairseq-train or a RoBERTa release."
        )
    values = {str(name): unwrap(value) for name, value in settings.items()}
    return {n: it if isinstance(it, SCALARS) else type(it).__name__ for n, it in values.items()}


def unwrap(value: Any) -> Any:
    """The dict or value that an opaque object of argparse or OmegaConf stands for.

    Objects in it stay, since malicious settings contain themselves.
    """
    if isinstance(value, OpaqueObject):
        state = value.state if isinstance(value.state, dict) else {}
        return state.get("_val", state.get("_content", state))
    return value


def read_tokenizer(path: Path, rows: int) -> Tokenizer:
    """A subword tokenizer if its files exist, else one for text that is split into symbols."""
    folder = path.parent
    if not (folder / DICTIONARY_FILE).is_file():
        raise ToolkitError(
            f"{folder} must contain the {DICTIONARY_FILE} of the model, but does not. Copy it next "
            f"to {path.name}. To read plain text, add GPT-2's encoder.json and vocab.bpe, or the "
            f"SentencePiece model."
        )
    words = WordLevelTokenizer.from_file(folder / DICTIONARY_FILE)
    if len(words.vocabulary) != rows:
        raise ToolkitError(
            f"{folder / DICTIONARY_FILE} must have one symbol for each of the model's {rows} "
            f"rows, but has {len(words.vocabulary)}. Use the file that the model was trained with."
        )
    backend = subword_backend(folder, words)
    if backend is None:
        return words
    symbols, roles = words.vocabulary.symbols, words.vocabulary.roles
    masks = {symbols[number]: role == "mask" for role, number in roles.items()}
    backend.add_special_tokens(  # the mask includes the space before it
        [AddedToken(it, special=True, normalized=False, lstrip=mask) for it, mask in masks.items()]
    )
    return HuggingFaceTokenizer(backend.to_str(), roles, rows=rows)


def subword_backend(folder: Path, words: WordLevelTokenizer) -> HfTokenizer | None:
    """The subwords of a folder with the ids of dict.txt; None if it has no files of subwords."""
    for pieces, merges in BYTE_LEVEL:
        if (folder / pieces).is_file() and (folder / merges).is_file():
            return byte_level_backend(words, folder / pieces, folder / merges)
    if not (models_here := [folder / name for name in UNIGRAM if (folder / name).is_file()]):
        return None
    proto = parse_model(read_bytes(models_here[0]))  # SentencePiece as in Conneau et al. 2020
    tokenizer_files.check_expressible(proto)
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == NORMAL}
    symbols = words.vocabulary.symbols
    more = sorted(scores.keys() - set(symbols))  # they get unknown ids above the rows
    listed = [(symbol, scores.get(symbol, 0.0)) for symbol in [*symbols, *more]]
    return tokenizer_files.unigram_backend(proto, listed, words.vocabulary.unk, lowercase=False)


def byte_level_backend(words: WordLevelTokenizer, pieces: Path, merges: Path) -> HfTokenizer:
    """GPT-2's BPE (Radford et al. 2019); the symbols of dict.txt are GPT-2's ids in decimal."""
    symbols, special = words.vocabulary.symbols, set(words.vocabulary.roles.values())
    ids = {symbol: i for i, symbol in enumerate(symbols) if i not in special}
    try:
        lines = [line for line in read_bytes(merges, MAX_BYTES).decode().splitlines() if line]
        pairs: list[Any] = [
            tuple(line.split()) for line in lines if not line.startswith("#version")
        ]
        numbers = read_json(pieces, dict[str, Count], "Use GPT-2's original files.")
        above = iter(range(len(symbols), len(symbols) + len(numbers)))  # unknown ids
        known = {piece: ids.get(str(number)) for piece, number in numbers.items()}
        index = {piece: next(above) if i is None else i for piece, i in known.items()}
        index |= {symbol: i for i, symbol in enumerate(symbols) if symbol not in ids}
        backend = HfTokenizer(models.BPE(index, pairs))
    except Exception as error:  # the bindings raise plain exceptions
        raise ToolkitError(
            f"{pieces} and {merges.name} must list subwords and merges as GPT-2's files do, but "
            f"do not: {error}. Use GPT-2's original files."
        ) from error
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend

"""Export of a checkpoint to a folder for Hugging Face Transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from toolkit.checkpoints.load import EXTRA_FILE, find_checkpoint, read_config, weights_file
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json
from toolkit.common.registry import ARCHITECTURES
from toolkit.config.run import RunConfig
from toolkit.conversion.huggingface import config_mapping, files
from toolkit.conversion.huggingface.model_types import (
    BERT,
    CONVBERT,
    ELECTRA,
    ENCODER,
    HEAD,
    MODEL_TYPES,
    ModelType,
)
from toolkit.conversion.huggingface.tokenizer_export import write_tokenizer
from toolkit.conversion.write_checkpoint import ORIGIN_FILE, projects_embeddings
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.models.bert import bert
from toolkit.models.convbert import convbert

GENERATOR = "task.generator."
SHARED = tuple(f"{ENCODER}.embeddings.{part}." for part in ("words", "types", "positions", "norm"))


class ModelComponent(NamedTuple):
    """An encoder with its head, under the names of a masked language model's learner."""

    arch: Any
    """The config of its architecture."""
    tensors: dict[str, Tensor]
    has_mlm_head: bool
    """Whether it predicts masked tokens."""
    is_discriminator: bool = False
    """Whether it detects replaced tokens."""


def select_component(
    run: RunConfig, tensors: Mapping[str, Tensor], wanted: str | None
) -> ModelComponent:
    """The model to export: for rtd the discriminator or the generator, else the only one."""
    if run.task.name != "rtd":
        if wanted is not None:
            raise ToolkitError(
                f"--component {wanted} requires a checkpoint trained with --task rtd, but the task "
                f"is {run.task.name}."
            )
        return ModelComponent(run.arch.config, dict(tensors), run.task.name == "mlm")
    if wanted == "generator":
        return extract_generator(run, tensors)
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith(GENERATOR)}
    return ModelComponent(run.arch.config, own, False, True)


def extract_generator(run: RunConfig, tensors: Mapping[str, Tensor]) -> ModelComponent:
    """The generator, with the embedding tables that it shares with the discriminator."""
    arch, task = run.arch.config, run.task.config
    inner = arch.embedding_width or arch.width
    arch = replace(arch, **{**arch.scaled_options(task.generator_size), "embedding_width": inner})
    own = {name: tensor for name, tensor in tensors.items() if name.startswith(SHARED)}
    for name, tensor in tensors.items():
        if name.startswith(f"{GENERATOR}encoder."):
            own[f"{ENCODER}.{name.removeprefix(f'{GENERATOR}encoder.')}"] = tensor
        if name.startswith(f"{GENERATOR}head."):
            own[f"{HEAD}.{name.removeprefix(f'{GENERATOR}head.')}"] = tensor
    return ModelComponent(arch, own, True)


COUNTERPARTS = (bert, convbert)
"""Builders of the architectures that Transformers has; a plugin's builder never is one."""


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """The contents of the exported folder."""

    model_type: ModelType
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    tokenizer: Tokenizer
    omitted: list[str] = field(default_factory=list)
    """Tensors that Transformers has no counterpart for."""
    note: str = ""


def export_checkpoint(
    path: Path, *, weights: str = "auto", component: str | None = None
) -> ExportedModel:
    """The model of a checkpoint, under the names of Transformers."""
    folder = find_checkpoint(path)
    run, sizes = read_config(folder)
    found = select_component(run, read_tensors(folder / weights_file(folder, weights)), component)
    build: Any = ARCHITECTURES[run.arch.name].factory
    check_architecture(run.arch.name, build, found.arch)
    tokenizer, origin = unwrap_tokenizer(Tokenizer.load(folder)), read_origin(folder)
    model_type = choose_model_type(build, found, origin)
    mappings = model_type.mappings(
        found.arch.layers, projected=projects_embeddings(found.arch), head=found.has_mlm_head
    )
    theirs = {
        n: t
        for mapping in mappings
        for n, t in mapping.split(found.tensors[mapping.toolkit_name]).items()
    }
    used = {mapping.toolkit_name for mapping in mappings}
    rest = {name: tensor for name, tensor in found.tensors.items() if name not in used}
    rest |= read_tensors(folder / EXTRA_FILE) if (folder / EXTRA_FILE).exists() else {}
    heads = [n for n in found.tensors if n.startswith(f"{HEAD}.") and not found.is_discriminator]
    known = {name: None if name in heads else model_type.external_name(name) for name in rest}
    theirs |= {name: rest[ours] for ours, name in known.items() if name is not None}
    config = config_mapping.to_hf_config(
        model_type, found.arch, sizes["tokens"], tokenizer.vocabulary.pad, origin
    )
    config["dtype"] = files.main_dtype(theirs)
    if not has_class_name(config.get("architectures")):
        config["architectures"] = [class_name(model_type, found)]
    return ExportedModel(
        model_type=model_type,
        config=config,
        tensors=add_prefix(model_type, theirs),
        tokenizer=tokenizer,
        omitted=sorted(name for name, there in known.items() if there is None),
        note=padding_note(model_type, found.arch),
    )


def has_class_name(classes: Any) -> bool:
    """Whether the architectures of a config start with a class name."""
    return isinstance(classes, list) and bool(classes) and isinstance(classes[0], str)


def read_origin(folder: Path) -> dict[str, Any]:
    """The config.json of an imported checkpoint; empty for one trained here."""
    if not (folder / ORIGIN_FILE).exists():
        return {}
    found: dict[str, Any] = read_json(folder / ORIGIN_FILE)
    return found


def choose_model_type(
    build: Any, component: ModelComponent, origin: Mapping[str, Any]
) -> ModelType:
    """The original model type, else the simplest one that fits."""
    if origin.get("model_type") in MODEL_TYPES:
        return MODEL_TYPES[str(origin["model_type"])]
    if build is convbert:
        return CONVBERT
    return ELECTRA if projects_embeddings(component.arch) or component.is_discriminator else BERT


def class_name(model_type: ModelType, component: ModelComponent) -> str:
    name = {"bert": "Bert", "electra": "Electra", "convbert": "ConvBert"}[model_type.model_type]
    if component.is_discriminator and model_type is ELECTRA:
        return f"{name}ForPreTraining"
    return f"{name}ForMaskedLM" if component.has_mlm_head else f"{name}Model"


def padding_note(model_type: ModelType, arch: Any) -> str:
    """A note on differences in spite of equal weights."""
    if model_type is not CONVBERT or arch.convolve_padding:
        return ""
    return (
        "Transformers lets convolutions see padding, this model does not: vectors near the end of "
        "padded sentences differ slightly"
    )


def add_prefix(model_type: ModelType, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Prefix the encoder's names with the model type if there is a head."""
    inner = ("embeddings.", "embeddings_project.", "encoder.", "pooler.")
    if all(name.startswith(inner) for name in tensors):
        return dict(tensors)
    prefix = f"{model_type.model_type}."
    return {(prefix if n.startswith(inner) else "") + n: t for n, t in tensors.items()}


def check_architecture(arch: str, build: Any, c: Any) -> None:
    reasons = []
    if build not in COUNTERPARTS:
        reasons = [f"is {arch}"]
    elif c.hidden_position_embedding:
        reasons = ["has a row for hidden positions (arch.hidden_position_embedding)"]
    elif build is convbert:
        wanted = {
            "conv_type": "span",
            "share_value": False,
            "depthwise_bias": False,
            "renormalize_at_boundaries": False,
            "kernel_dropout": 0.0,
        }
        reasons = [f"has {n} {getattr(c, n)}" for n, v in wanted.items() if getattr(c, n) != v]
        if 2 * c.attention_heads * c.head_width != c.width:
            reasons.append(
                f"has heads of width {c.head_width} that do not sum to half of the model's width"
            )
    if reasons:
        raise ToolkitError(
            f"the architecture must be bert or convbert as in Transformers, but this one "
            f"{' and '.join(reasons)}. Nothing was written."
        )


def write_model(target: Path, model: ExportedModel) -> None:
    """Write the folder, complete or not at all."""

    def fill(folder: Path) -> None:
        files.write_config(folder, model.config)
        files.write_tensors(folder, model.tensors)
        write_tokenizer(
            folder,
            model.tokenizer,
            positions=model.config["max_position_embeddings"],
            token_types=model.config["type_vocab_size"],
        )

    files.write_folder(target, fill)

"""Export of a checkpoint to a folder for Hugging Face Transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from toolkit.checkpoints.load import EXTRA_FILE, find_checkpoint, read_config, weights_file
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common.json_files import JsonObject, read_json
from toolkit.config.run import ComponentConfig
from toolkit.conversion.huggingface import config_mapping, files
from toolkit.conversion.huggingface.components import ModelComponent, select_arch, select_component
from toolkit.conversion.huggingface.deberta import DEBERTA, choose_head
from toolkit.conversion.huggingface.head_export import (
    ExportedHead,
    export_head,
    head_option,
    native_mappings,
)
from toolkit.conversion.huggingface.model_card import (
    MODEL_CARD_FILE,
    CardModel,
    build_model_card,
)
from toolkit.conversion.huggingface.model_type import HEAD, ModelType
from toolkit.conversion.huggingface.model_types import (
    BERT,
    CONVBERT,
    ELECTRA,
    MODEL_TYPES,
)
from toolkit.conversion.huggingface.modernbert import MODERNBERT, dropout_note
from toolkit.conversion.huggingface.native_architectures import (
    check_architecture,
    list_differences,
)
from toolkit.conversion.huggingface.native_heads import CLASS_ENDINGS, NULL_THRESHOLD
from toolkit.conversion.huggingface.tokenizer_export import write_tokenizer
from toolkit.conversion.write_checkpoint import ORIGIN_FILE
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.models.convbert import ConvBertConfig
from toolkit.models.deberta import DebertaConfig
from toolkit.models.encoder import EncoderConfig
from toolkit.models.modernbert import ModernBertConfig


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """The contents of the exported folder."""

    model_type: ModelType
    config: JsonObject
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
    part = select_component(run, read_tensors(folder / weights_file(folder, weights)), component)
    arch = check_architecture(run.arch.name, part.arch)
    tokenizer, origin = Tokenizer.load(folder), read_origin(folder)
    model_type, head = choose_model_type(arch, part, tokenizer, origin)
    extra = read_tensors(folder / EXTRA_FILE) if (folder / EXTRA_FILE).exists() else {}
    tensors, omitted = rename_tensors(model_type, arch, part, head, extra)
    config = config_mapping.to_hf_config(
        model_type,
        arch,
        sizes["tokens"],
        tokenizer.vocabulary.pad,
        {**(head.settings if head else {}), **origin},
    )
    config["dtype"] = files.main_dtype(tensors)
    classes = config.get("architectures")
    if not (isinstance(classes, list) and classes and isinstance(classes[0], str)):
        config["architectures"] = [class_name(model_type, part, head)]
    notes = padding_note(arch), dropout_note(arch), head_note(part.task, head)
    return ExportedModel(
        model_type=model_type,
        config=config,
        tensors=add_prefix(model_type, tensors),
        tokenizer=tokenizer,
        omitted=omitted,
        note="; ".join(filter(None, notes)),
    )


def rename_tensors(
    model_type: ModelType,
    arch: EncoderConfig,
    part: ModelComponent,
    head: ExportedHead | None,
    extra: Mapping[str, Tensor],
) -> tuple[dict[str, Tensor], list[str]]:
    """Tensors under the names of Transformers, and the names of those that it lacks."""
    mappings = model_type.mappings(arch, head=part.has_mlm_head)
    mappings += head.mappings if head else []
    renamed: dict[str, Tensor] = {}
    for mapping in mappings:
        renamed |= mapping.split(part.tensors[mapping.toolkit_name])
    mapped, omitted = {mapping.toolkit_name for mapping in mappings}, []
    mapped |= {NULL_THRESHOLD} if head else set()
    for name, tensor in {**part.tensors, **extra}.items():
        if name in mapped and name not in extra:
            continue
        is_other_head = name in part.tensors and name.startswith(f"{HEAD}.")
        hf_name = model_type.external_name(name)
        if hf_name is None or (is_other_head and not part.is_discriminator):
            omitted.append(name)
        else:
            renamed[hf_name] = tensor
    return renamed, sorted(omitted)


def read_origin(folder: Path) -> JsonObject:
    """The config.json of an imported checkpoint; empty for one trained here."""
    if not (folder / ORIGIN_FILE).exists():
        return {}
    return read_json(folder / ORIGIN_FILE, JsonObject, "Convert the model again.")


def choose_model_type(
    arch: EncoderConfig, component: ModelComponent, tokenizer: Tokenizer, origin: JsonObject
) -> tuple[ModelType, ExportedHead | None]:
    """The first model type that has the task's head, else the first; with that head."""
    model_types = list_model_types(arch, component.task, origin)
    for model_type in model_types:
        if head := export_head(model_type, component.task, component.tensors, tokenizer):
            return model_type, head
    return model_types[0], None


def list_model_types(
    arch: EncoderConfig, task: ComponentConfig, origin: JsonObject
) -> list[ModelType]:
    """The original model type, else those with the same encoder, the simplest first."""
    if origin.get("model_type") in MODEL_TYPES:
        return [choose_head(MODEL_TYPES[str(origin["model_type"])], origin)]
    if isinstance(arch, ConvBertConfig):
        return [CONVBERT]
    if isinstance(arch, DebertaConfig):
        return [DEBERTA]
    if isinstance(arch, ModernBertConfig):
        return [MODERNBERT]
    if arch.projects_embeddings or task.name == "rtd":
        return [ELECTRA]
    return [BERT, ELECTRA]


def class_name(model_type: ModelType, component: ModelComponent, head: ExportedHead | None) -> str:
    """Name of the class of Transformers for a model and its head."""
    ending = head.class_ending if head else "ForMaskedLM" if component.has_mlm_head else "Model"
    if component.is_discriminator and model_type is ELECTRA:
        ending = "ForPreTraining"
    return model_type.class_prefix + ending


def padding_note(arch: EncoderConfig) -> str:
    """A note on differences in spite of equal weights."""
    if not isinstance(arch, ConvBertConfig) or arch.convolve_padding:
        return ""
    return (
        "Transformers lets convolutions see padding, this model does not: vectors near the end of "
        "padded sentences differ slightly"
    )


def head_note(task: ComponentConfig, head: ExportedHead | None) -> str:
    """A note on a head that is not exported although Transformers has classes for its task."""
    if head or task.name not in CLASS_ENDINGS:
        return ""
    if task.config.layer_mixing:
        option = "--task.layer-mixing true"
    else:
        option = f"--task.head {head_option(task)}" if head_option(task) else f"--task {task.name}"
    return f"no class of Transformers computes {option}: the head was not exported"


def add_prefix(model_type: ModelType, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Prefix the encoder's names if there is a head."""
    inner = model_type.inner
    if all(name.startswith(inner) for name in tensors):
        return dict(tensors)
    prefix = model_type.prefix
    return {(prefix if n.startswith(inner) else "") + n: t for n, t in tensors.items()}


def has_native_class(path: Path, component: str | None = None) -> bool:
    """Whether a class of Transformers computes the same as a checkpoint, its head included."""
    folder = find_checkpoint(path)
    run, _ = read_config(folder)
    arch = select_arch(run, component)
    if list_differences(run.arch.name, arch):
        return False
    checked = check_architecture(run.arch.name, arch)
    model_types = list_model_types(checked, run.task, read_origin(folder))
    return run.task.name in ("mlm", "rtd", "encode") or any(
        native_mappings(model_type, run.task) is not None for model_type in model_types
    )


def write_model(target: Path, model: ExportedModel, source: Path) -> None:
    """Write the folder of a checkpoint's model, complete or not at all."""
    described = CardModel(
        model.config["architectures"][0],
        sum(tensor.numel() for tensor in model.tensors.values()),
        model.tokenizer,
        native=True,
    )
    card = build_model_card(target.name, find_checkpoint(source), described)

    def fill(folder: Path) -> None:
        (folder / MODEL_CARD_FILE).write_text(card, "utf-8")
        files.write_config(folder, model.config)
        files.write_tensors(folder, model.tensors)
        write_tokenizer(
            folder,
            unwrap_tokenizer(model.tokenizer),
            positions=model.config["max_position_embeddings"],
            token_types=model.config.get("type_vocab_size", 0),
        )

    files.write_folder(target, fill)

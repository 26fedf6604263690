"""Export of a head: the class of Transformers that computes what a task does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from torch import Tensor

from toolkit.common.json_files import JsonObject
from toolkit.config.run import ComponentConfig
from toolkit.conversion.huggingface.model_type import ModelType
from toolkit.conversion.huggingface.native_heads import (
    CLASS_ENDINGS,
    NULL_THRESHOLD,
    SENTENCE_HEADS,
    SETTINGS_KEY,
    SUMMARY_DEFAULTS,
    head_mappings,
    summary_settings,
)
from toolkit.conversion.tensor_mapping import TensorMapping
from toolkit.data.formats.label_settings import label_settings, saved_labels
from toolkit.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ExportedHead:
    """The head of a class of Transformers."""

    class_ending: str
    mappings: list[TensorMapping]
    settings: JsonObject
    """Entries of config.json."""


def native_mappings(model_type: ModelType, task: ComponentConfig) -> list[TensorMapping] | None:
    """The tensors of a task's head; None if no class of the model type computes it."""
    if task.name not in CLASS_ENDINGS or task.config.layer_mixing:
        return None
    return head_mappings(model_type, task.name, head_option(task))


def head_option(task: ComponentConfig) -> str:
    """The task's option --task.head; empty for tasks without it."""
    return task.config.head if task.name in SENTENCE_HEADS else ""


def export_head(
    model_type: ModelType,
    task: ComponentConfig,
    tensors: Mapping[str, Tensor],
    tokenizer: Tokenizer,
) -> ExportedHead | None:
    """The head of a task with these tensors and labels; None if Transformers lacks it."""
    mappings = native_mappings(model_type, task)
    if mappings is None:
        return None
    saved: JsonObject = {
        "task": task.name,
        "options": asdict(task.config),
        "labels": saved_labels(tokenizer),
    }
    if NULL_THRESHOLD in tensors:
        saved["null_threshold"] = tensors[NULL_THRESHOLD].item()
    return ExportedHead(
        class_ending=CLASS_ENDINGS[task.name],
        mappings=mappings,
        settings={
            **label_settings(tokenizer),
            **dropout_settings(model_type, task),
            SETTINGS_KEY: saved,
        },
    )


def dropout_settings(model_type: ModelType, task: ComponentConfig) -> JsonObject:
    """Dropout before the output, and the summary of ELECTRA and ConvBERT."""
    kind = head_option(task)
    if not kind:
        return {model_type.head_dropout: 0.0}
    if task.name == "multiple_choice" and model_type.model_type in SUMMARY_DEFAULTS:
        return summary_settings(kind, task.config.head_dropout)
    return {model_type.head_dropout: task.config.head_dropout}

"""Import of a head: the class of Transformers that config.json names, as a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import TASKS
from toolkit.conversion.huggingface.model_type import ModelType
from toolkit.conversion.huggingface.modernbert import MODERNBERT
from toolkit.conversion.huggingface.native_heads import (
    CLASS_TASKS,
    NULL_THRESHOLD,
    SETTINGS_KEY,
    SUMMARY_DEFAULTS,
    TAGGING_TASKS,
    class_ending,
    head_kind,
    head_mappings,
)
from toolkit.conversion.tensor_mapping import TensorMapping
from toolkit.data.formats.classification.tokenizer import ClassificationTokenizer, Labels
from toolkit.data.formats.label_settings import (
    LabelSet,
    label_names,
    read_labels,
    read_tables,
)
from toolkit.data.formats.tagging.label_tables import LabelTables
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.metrics.spans import has_span_tags


@dataclass(frozen=True, kw_only=True)
class ImportedHead:
    """A task with its options, labels and tensors."""

    task: str
    options: JsonObject = field(default_factory=dict)
    mappings: list[TensorMapping] = field(default_factory=list)
    buffers: Mapping[str, Tensor] = field(default_factory=dict)
    """Tensors that are settings in Transformers."""
    labels: LabelSet | None = None
    note: str = ""
    """What the import left unused."""

    @property
    def sizes(self) -> dict[str, int]:
        if isinstance(self.labels, Labels):
            return {"labels": self.labels.outputs}
        return {"tags": len(self.labels.tags)} if self.labels else {}

    def add_labels(self, tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer with the task's labels, if it has any."""
        if isinstance(self.labels, Labels):
            return ClassificationTokenizer(tokenizer, self.labels)
        if isinstance(self.labels, LabelTables):
            return TaggingTokenizer(tokenizer, self.labels)
        return tokenizer


def read_head(
    model_type: ModelType, config: JsonObject, *, predicts_tokens: bool, pairs: bool
) -> ImportedHead:
    """The task that config.json describes.

    Without one it is mlm if the model predicts tokens, else encode. `pairs` tells that a classifier
    reads pairs of texts.
    """
    ending = class_ending(model_type, config)
    task, kind, unsupported = CLASS_TASKS.get(ending, ""), None, ""
    if task == "pos_tagging" and finds_spans(config):
        task = "span_tagging"
    if task:
        kind = head_kind(model_type, task, config)
        unsupported = describe_unsupported(task, kind, config)
        if model_type is MODERNBERT:
            unsupported = "predicts from a map with a norm"
    if kind is None or unsupported:
        note = f"the head of {model_type.class_prefix}{ending} {unsupported}: kept, not used"
        return ImportedHead(
            task="mlm" if predicts_tokens else "encode", note=note if unsupported else ""
        )
    mappings = head_mappings(model_type, task, kind)
    assert mappings is not None, "head_kind names one of them"
    saved = read_saved(config, task)
    try:
        return ImportedHead(
            task=task,
            options=task_options(model_type, task, kind, config, saved),
            mappings=mappings,
            buffers=read_buffers(task, saved),
            labels=read_label_set(task, config, saved, pairs=pairs),
        )
    except ToolkitError:
        raise
    except (ValueError, TypeError) as error:
        raise ToolkitError(
            f"{SETTINGS_KEY} in config.json must be as toolkit-convert wrote it, but is not: "
            f"{error}. Correct it, or remove it."
        ) from error


def finds_spans(config: JsonObject) -> bool:
    """Whether a tagger finds spans: as its export says, or else by its tags, such as B-PER."""
    if any(read_saved(config, task) for task in TAGGING_TASKS):
        return bool(read_saved(config, "span_tagging"))
    return has_span_tags(label_names(config))


def describe_unsupported(task: str, kind: str | None, config: JsonObject) -> str:
    """Why the toolkit has no such head; empty if it has."""
    if kind is None:
        return "does not summarize the first token by a map with gelu or tanh, or without one"
    problem = config.get("problem_type")
    if task == "glue" and problem == "multi_label_classification":
        return "predicts several labels of a text at once"
    if task == "glue" and problem == "regression" and len(label_names(config)) > 1:
        return "predicts several numbers of a text"
    return ""


def read_saved(config: JsonObject, task: str) -> JsonObject:
    """What the export of a checkpoint of this task added; empty for other models."""
    saved = config.get(SETTINGS_KEY)
    return saved if isinstance(saved, dict) and saved.get("task") == task else {}


def read_label_set(
    task: str, config: JsonObject, saved: JsonObject, *, pairs: bool
) -> LabelSet | None:
    """The labels of a classifier or tagger; None for other tasks."""
    labels = saved.get("labels", {})
    if not isinstance(labels, dict):
        raise TypeError("its labels are not an object")
    if task == "glue":
        return read_labels(config, labels, pairs=pairs)
    return read_tables(config, labels) if task in TAGGING_TASKS else None


def read_buffers(task: str, saved: JsonObject) -> dict[str, Tensor]:
    """Stored numbers of a task that are not weights: the null threshold of squad."""
    if task != "squad":
        return {}
    return {NULL_THRESHOLD: torch.tensor(float(saved.get("null_threshold", 0.0)))}


def task_options(
    model_type: ModelType, task: str, kind: str, config: JsonObject, saved: JsonObject
) -> JsonObject:
    """Those of an exported checkpoint, with the head and its dropout from Transformers."""
    known: Any = asdict(TASKS[task].config)
    options = {k: v for k, v in dict(saved.get("options", {})).items() if k in known}
    options["layer_mixing"] = False
    if not kind:
        return options
    if task == "multiple_choice" and model_type.model_type in SUMMARY_DEFAULTS:
        summary = {**SUMMARY_DEFAULTS[model_type.model_type], **config}
        dropout = summary.get("summary_last_dropout", 0.0)
    else:
        dropout = config.get(model_type.head_dropout)
        if dropout is None:
            dropout = {**model_type.defaults, **config}["hidden_dropout_prob"]
    return {**options, "head": kind, "head_dropout": dropout}

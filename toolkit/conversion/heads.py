"""Heads that a task of the toolkit and a class of Transformers compute alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonError, JsonObject, convert, name_file
from toolkit.common.registry import TASKS
from toolkit.config.sections import ComponentConfig
from toolkit.conversion.model_types import MODERNBERT, ModelType
from toolkit.conversion.tensors import NameTable
from toolkit.data.formats.classification.split import GLUE_SCHEMAS, ClassificationTokenizer, Labels
from toolkit.data.formats.tagging.tokenizer import ANY_COLUMN, LabelTables, TaggingTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer, unwrap_tokenizer
from toolkit.metrics.classification import has_span_tags
from toolkit.models.interface import ArchConfig, EncoderModel
from toolkit.tasks.glue import Glue
from toolkit.tasks.tagging.predictions import PosTagging
from toolkit.tasks.task import max_input_length

SETTINGS_KEY = "toolkit"
"""Key of config.json for what Transformers has no settings for."""
SETTINGS, REMEDY = Path("config.json"), f"Correct what it holds under {SETTINGS_KEY}, or remove it."
NULL_THRESHOLD = "task.null_threshold"
"""Buffer of task squad, which is such a setting."""
CLASS_TASKS = {
    "ForSequenceClassification": "glue",
    "ForTokenClassification": "pos_tagging",
    "ForQuestionAnswering": "squad",
    "ForMultipleChoice": "multiple_choice",
}
"""End of a class's name -> task."""
TAGGING_TASKS, SENTENCE_TASKS = ("pos_tagging", "span_tagging"), ("glue", "multiple_choice")
CUTTING_TASKS = (*TAGGING_TASKS, *SENTENCE_TASKS)
"""Tasks that cut their inputs where pipelines of Transformers do; squad reads windows."""
CLASS_ENDINGS = {
    **{task: ending for ending, task in CLASS_TASKS.items()},
    **dict.fromkeys(TAGGING_TASKS, "ForTokenClassification"),
}
BERT_POOLED = {"task.pooler": "pooler.dense", "task.head.output": "classifier"}
POOLED = {"bert": {"pooled": BERT_POOLED}, "deberta-v2": {"gelu": BERT_POOLED}}
LAYERS = {"gelu": {"task.pooler": "classifier.dense", "task.head.output": "classifier.out_proj"}}
SUMMARY = {"task.pooler": "sequence_summary.summary", "task.head.output": "classifier"}
SUMMARIES = {"pooled": SUMMARY, "gelu": SUMMARY, "plain": {"task.head.output": "classifier"}}
TOKENS: dict[str, dict[str, NameTable]] = {
    name: {"": {"task.head": "classifier"}} for name in (*POOLED, "electra", "convbert")
}
HEADS: dict[str, Mapping[str, Mapping[str, NameTable]]] = {
    "glue": {**POOLED, "electra": LAYERS, "convbert": LAYERS},
    "multiple_choice": {**POOLED, "electra": SUMMARIES, "convbert": SUMMARIES},
    "squad": {name: {"": {"task.head": "qa_outputs"}} for name in TOKENS},
    **dict.fromkeys(TAGGING_TASKS, TOKENS),
}
"""Task -> model type -> --task.head, empty for tasks without it -> names of tensors. ModernBERT has
none: its heads have a norm."""
ACTIVATIONS = {"pooled": "tanh", "gelu": "gelu", "plain": ""}
"""--task.head -> summary_activation."""
SUMMARY_DEFAULTS: dict[str, JsonObject] = {
    "electra": {
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
        "summary_last_dropout": 0.1,
    },
    "convbert": {"summary_type": "last"},
}
"""Summaries of a model whose config.json does not describe them."""


@dataclass(frozen=True, kw_only=True)
class ImportedHead:
    """A task with its options, labels and tensors."""

    task: str
    options: JsonObject = field(default_factory=dict)
    names: NameTable = field(default_factory=dict)
    buffers: Mapping[str, Tensor] = field(default_factory=dict)
    """Tensors that are settings in Transformers."""
    note: str = ""
    """What the import left unused."""


class SavedHead(TypedDict, total=False):
    """What the export of a checkpoint adds to config.json."""

    task: str
    options: JsonObject
    labels: JsonObject
    null_threshold: float


def read_head(model_type: ModelType, config: JsonObject, *, predicts_tokens: bool) -> ImportedHead:
    """The task that config.json describes; else mlm if the model predicts tokens, or encode."""
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else ""
    ending = name.removeprefix(model_type.class_prefix)
    task, kind, unsupported = CLASS_TASKS.get(ending, ""), None, ""
    if task == "pos_tagging":  # as the export says, or else by the tags, such as B-PER
        by_tags = "span_tagging" if has_span_tags(label_names(config)) else task
        task = next((it for it in TAGGING_TASKS if read_saved(config, it)), by_tags)
    if task:
        kind = head_kind(model_type, task, config)
        unsupported = describe_unsupported(model_type, task, kind, config)
    if kind is None or unsupported:
        note = f"the head of {model_type.class_prefix}{ending} {unsupported}: kept, not used"
        plain = model_type.token_tasks[0] if predicts_tokens else "encode"
        return ImportedHead(task=plain, note=note if unsupported else "")
    saved = read_saved(config, task)
    threshold = torch.tensor(float(saved.get("null_threshold", 0.0)))
    return ImportedHead(
        task=task,
        options=task_options(model_type, task, kind, config, saved),
        names=HEADS[task][model_type.model_type][kind],
        buffers={NULL_THRESHOLD: threshold} if task == "squad" else {},
    )


def with_labels(tokenizer: Tokenizer, task: str, config: JsonObject, *, pairs: bool) -> Tokenizer:
    """The tokenizer with the labels of a classifier or tagger, unless it has the same ones."""
    factory, plain = TASKS[task].factory, unwrap_tokenizer(tokenizer)
    saved = read_saved(config, task).get("labels", {})
    with name_file(SETTINGS, REMEDY):
        if issubclass(factory, Glue):
            labels = read_labels(config, saved, pairs=pairs)
            same = isinstance(tokenizer, ClassificationTokenizer) and (
                tokenizer.labels.fingerprint == labels.fingerprint
            )
            return tokenizer if same else ClassificationTokenizer(plain, labels)
        if issubclass(factory, PosTagging):
            column = str(saved.get("column", ANY_COLUMN))
            empty: dict[str, list[Any]] = {"characters": [], "words": [], "ambiguous": []}
            tables = LabelTables(tags=label_names(config), column=column, **empty)
            if isinstance(tokenizer, TaggingTokenizer):
                tables = replace(tokenizer.tables, tags=tables.tags)
            return TaggingTokenizer(plain, tables)
    return tokenizer


def head_kind(model_type: ModelType, task: str, config: JsonObject) -> str | None:
    """The --task.head that computes the same; None if none does, empty for other tasks."""
    kinds = HEADS[task].get(model_type.model_type, {})
    if len(kinds) <= 1:
        return next(iter(kinds), None)
    summary = {**SUMMARY_DEFAULTS[model_type.model_type], **config}
    projects, activation = summary.get("summary_use_proj"), summary.get("summary_activation")
    if summary["summary_type"] != "first" or (projects and summary.get("summary_proj_to_labels")):
        return None
    for kind, name in ACTIVATIONS.items():
        if (kind != "plain", name) == (bool(projects), activation or ""):
            return kind
    return None


def describe_unsupported(
    model_type: ModelType, task: str, kind: str | None, config: JsonObject
) -> str:
    """Why the toolkit has no such head; empty if it has."""
    if model_type is MODERNBERT:
        return "predicts from a map with a norm"
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
    if not (isinstance(saved, dict) and saved.get("task") == task):
        return {}
    with name_file(SETTINGS, REMEDY):
        return dict(convert(saved, SavedHead))


def task_options(
    model_type: ModelType, task: str, kind: str, config: JsonObject, saved: JsonObject
) -> JsonObject:
    """Those of an exported checkpoint, with the head and its dropout from Transformers."""
    known: Any = asdict(TASKS[task].config)
    options = {k: v for k, v in saved.get("options", {}).items() if k in known}
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


def head_option(task: ComponentConfig) -> str:
    """The task's option --task.head; empty for tasks without it."""
    return task.config.head if task.name in SENTENCE_TASKS else ""


def input_length(task: ComponentConfig, arch: ArchConfig | EncoderModel) -> int | None:
    """Number of tokens that a fine-tuned model's inputs are cut to, else what it can read."""
    if task.name not in CLASS_ENDINGS:
        return max_input_length(arch)
    length: int = TASKS[task.name].factory.resolve_for(task.config, arch).tokens_per_sample
    return length


def head_settings(
    model_type: ModelType,
    task: ComponentConfig,
    tensors: Mapping[str, Tensor],
    tokenizer: Tokenizer,
) -> JsonObject:
    """What `read_head` and Transformers read in config.json about a task's head."""
    kind = head_option(task)
    dropout: JsonObject = {model_type.head_dropout: task.config.head_dropout if kind else 0.0}
    if task.name == "multiple_choice" and model_type.model_type in SUMMARY_DEFAULTS:
        dropout = {
            "summary_type": "first",
            "summary_use_proj": kind != "plain",
            "summary_activation": ACTIVATIONS[kind],
            "summary_last_dropout": task.config.head_dropout,
        }
    labels: JsonObject = {}
    if isinstance(tokenizer, TaggingTokenizer):
        labels = {"column": tokenizer.tables.column}
    elif isinstance(tokenizer, ClassificationTokenizer):
        labels = asdict(tokenizer.labels)
    saved: JsonObject = {"task": task.name, "options": asdict(task.config), "labels": labels}
    if NULL_THRESHOLD in tensors:
        saved["null_threshold"] = tensors[NULL_THRESHOLD].item()
    return {**tokenizer.label_settings(), **dropout, SETTINGS_KEY: saved}


def label_names(config: JsonObject) -> list[str]:
    """Names in the order of their ids; LABEL_0 and so on if the config has none."""
    names = config.get("id2label")
    if names is None:
        count = config.get("num_labels", 2)
        names = {i: f"LABEL_{i}" for i in range(count if isinstance(count, int) else 0)}
    found = {str(i): name for i, name in names.items()} if isinstance(names, dict) else {}
    ordered = [found.get(str(i)) for i in range(len(found))]
    texts = [name for name in ordered if isinstance(name, str)]
    if not texts or len(set(texts)) < len(ordered):
        raise ToolkitError(
            f"id2label in config.json must name the ids from 0 on, each differently, but is "
            f"{str(names)[:100]}. Correct config.json."
        )
    return texts


def read_labels(config: JsonObject, saved: JsonObject, *, pairs: bool) -> Labels:
    """The labels of a classifier or a regression: `saved`, those of a checkpoint that was exported,
    unless Transformers trained the model on others.
    """
    names = label_names(config)
    classes = names if len(names) > 1 else []
    metrics = ["accuracy"] if classes else ["pearson", "spearman"]
    labels: JsonObject = {"task": "tsv", "metrics": metrics, "pairs": pairs, "bounds": []}
    if saved.get("classes") == classes:
        labels |= saved
        schema = GLUE_SCHEMAS.get(str(saved.get("task")))
        if schema is not None and schema.pairs != saved.get("pairs"):
            raise JsonError(f"pairs must be {schema.pairs} for {schema.name}")
    return convert({**labels, "classes": classes}, Labels)

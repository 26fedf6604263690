"""Heads that a task of the toolkit and a class of Transformers compute alike."""

from __future__ import annotations

from typing import NamedTuple

from toolkit.common.json_files import JsonObject
from toolkit.conversion.huggingface.deberta import DEBERTA
from toolkit.conversion.huggingface.model_type import HEAD, POOLER, ModelType
from toolkit.conversion.huggingface.model_types import BERT, CONVBERT, ELECTRA
from toolkit.conversion.huggingface.modernbert import MODERNBERT
from toolkit.conversion.tensor_mapping import TensorMapping, affine_mappings

SETTINGS_KEY = "toolkit"
"""Key of config.json for what Transformers has no settings for."""
NULL_THRESHOLD = "task.null_threshold"
"""Buffer of task squad, which is such a setting."""
CLASS_TASKS = {
    "ForSequenceClassification": "glue",
    "ForTokenClassification": "pos_tagging",
    "ForQuestionAnswering": "squad",
    "ForMultipleChoice": "multiple_choice",
}
"""End of a class's name -> task."""
TAGGING_TASKS = ("pos_tagging", "span_tagging")
CLASS_ENDINGS = {
    **{task: ending for ending, task in CLASS_TASKS.items()},
    **dict.fromkeys(TAGGING_TASKS, "ForTokenClassification"),
}


class HeadTensors(NamedTuple):
    """Prefixes of the tensors of a head in Transformers."""

    output: str
    pooler: str | None = None


BERT_POOLED = HeadTensors("classifier", "pooler.dense")
CLASSIFICATION_HEAD = HeadTensors("classifier.out_proj", "classifier.dense")
SUMMARY = HeadTensors("classifier", "sequence_summary.summary")
SUMMARIES = {"pooled": SUMMARY, "gelu": SUMMARY, "plain": HeadTensors("classifier")}
SENTENCE_HEADS = {
    "glue": {
        BERT.model_type: {"pooled": BERT_POOLED},
        DEBERTA.model_type: {"gelu": BERT_POOLED},
        ELECTRA.model_type: {"gelu": CLASSIFICATION_HEAD},
        CONVBERT.model_type: {"gelu": CLASSIFICATION_HEAD},
    },
    "multiple_choice": {
        BERT.model_type: {"pooled": BERT_POOLED},
        DEBERTA.model_type: {"gelu": BERT_POOLED},
        ELECTRA.model_type: SUMMARIES,
        CONVBERT.model_type: SUMMARIES,
    },
}
"""Task -> model type -> --task.head -> tensors."""
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


def class_ending(model_type: ModelType, config: JsonObject) -> str:
    """The end of the class's name if the class has the head of a task, else empty."""
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else ""
    ending = name.removeprefix(model_type.class_prefix)
    return ending if ending in CLASS_TASKS else ""


def head_mappings(model_type: ModelType, task: str, kind: str) -> list[TensorMapping] | None:
    """The tensors of a task's head; None if no class of the model type computes it.

    `kind` is the --task.head, for tasks that have it.
    """
    if model_type is MODERNBERT:  # its heads have a norm
        return None
    if task in TAGGING_TASKS:
        return affine_mappings(HEAD, "classifier")
    if task == "squad":
        return affine_mappings(HEAD, "qa_outputs")
    tensors = SENTENCE_HEADS.get(task, {}).get(model_type.model_type, {}).get(kind)
    if tensors is None:
        return None
    pooler = affine_mappings(POOLER, tensors.pooler) if tensors.pooler else []
    return [*pooler, *affine_mappings(f"{HEAD}.output", tensors.output)]


def head_kind(model_type: ModelType, task: str, config: JsonObject) -> str | None:
    """The --task.head that computes the same; None if none does, empty for other tasks."""
    if model_type is MODERNBERT:
        return None
    if task not in SENTENCE_HEADS:
        return ""
    kinds = SENTENCE_HEADS[task][model_type.model_type]
    if len(kinds) == 1:
        return next(iter(kinds))
    summary = {**SUMMARY_DEFAULTS[model_type.model_type], **config}
    projects, activation = summary.get("summary_use_proj"), summary.get("summary_activation")
    if summary["summary_type"] != "first" or (projects and summary.get("summary_proj_to_labels")):
        return None
    return next(
        (
            kind
            for kind, name in ACTIVATIONS.items()
            if (kind != "plain", name) == (bool(projects), activation or "")
        ),
        None,
    )


def summary_settings(kind: str, dropout: float) -> JsonObject:
    """The settings that `head_kind` reads."""
    return {
        "summary_type": "first",
        "summary_use_proj": kind != "plain",
        "summary_activation": ACTIVATIONS[kind],
        "summary_last_dropout": dropout,
    }

"""Labels of classifiers and taggers in a config.json of Transformers: id2label, problem_type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonError, JsonObject, convert
from toolkit.data.formats.classification.split import ClassificationTokenizer, Labels
from toolkit.data.formats.classification.tables import GLUE_SCHEMAS
from toolkit.data.formats.tagging.tokenizer import ANY_COLUMN, LabelTables, TaggingTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer

LabelSet = Labels | LabelTables


def label_names(config: JsonObject) -> list[str]:
    """Names in the order of their ids; LABEL_0 and so on if the config has none."""
    names = config.get("id2label")
    if names is None:
        count = config.get("num_labels", 2)
        names = {i: default_name(i) for i in range(count if isinstance(count, int) else 0)}
    found = {str(i): name for i, name in names.items()} if isinstance(names, dict) else {}
    ordered = [found.get(str(i)) for i in range(len(found))]
    texts = [name for name in ordered if isinstance(name, str)]
    if not texts or len(set(texts)) < len(ordered):
        raise ToolkitError(
            f"id2label in config.json must name the ids from 0 on, each differently, but is "
            f"{str(names)[:100]}. Correct config.json."
        )
    return texts


def default_name(label: int) -> str:
    """The name that Transformers gives to a label."""
    return f"LABEL_{label}"


def read_labels(config: JsonObject, saved: JsonObject, *, pairs: bool) -> Labels:
    """The labels of a classifier or a regression.

    `saved` are those of a checkpoint that was exported. They count unless Transformers trained
    the model on others.
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


def read_tables(config: JsonObject, saved: JsonObject) -> LabelTables:
    """The tags of a tagger. The words of its training data are unknown."""
    return LabelTables(
        tags=label_names(config),
        characters=[],
        words=[],
        ambiguous=[],
        column=str(saved.get("column", ANY_COLUMN)),
    )


def label_settings(tokenizer: Tokenizer) -> JsonObject:
    """The settings that Transformers reads; empty for tasks without labels."""
    if isinstance(tokenizer, TaggingTokenizer):
        return name_settings(tokenizer.tables.tags)
    if not isinstance(tokenizer, ClassificationTokenizer):
        return {}
    classes = tokenizer.labels.classes
    problem = "single_label_classification" if classes else "regression"
    return {**name_settings(classes or [default_name(0)]), "problem_type": problem}


def name_settings(names: Sequence[str]) -> JsonObject:
    """id2label and label2id of class names."""
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }


def saved_labels(tokenizer: Tokenizer) -> JsonObject:
    """What Transformers has no settings for, as `read_labels` and `read_tables` take it."""
    if isinstance(tokenizer, TaggingTokenizer):
        return {"column": tokenizer.tables.column}
    return asdict(tokenizer.labels) if isinstance(tokenizer, ClassificationTokenizer) else {}

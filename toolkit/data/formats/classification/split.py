"""Labeled texts in data folders: options of their formats, labels, rows of a split, submissions.

The schemas of GLUE's tables are those of Wang et al. (2019, table 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from toolkit.common.arrays import AnyArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import write_output
from toolkit.common.json_files import JsonObject, digest_json, read_json, write_json
from toolkit.data.formats.format import MalformedOptions
from toolkit.data.preprocessing.input_files import FileNames
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import DataFolder, tokenizer_of_kind
from toolkit.data.tokenizers.tokenizer import (
    Tokenizer,
    WrappedTokenizer,
    name_labels,
    restore_inner,
)


@dataclass(frozen=True, kw_only=True)
class GlueFormatConfig(MalformedOptions):
    """Options of the format for GLUE's tables."""

    glue_task: str = ""
    """Task: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, or AX, the diagnostic set, which
    a model of MNLI predicts."""


@dataclass(frozen=True, kw_only=True)
class TsvConfig(MalformedOptions):
    """Options of the format for your own tables."""

    text_columns: str = "sentence"
    """Name of the column with the text; for pairs two names, separated by a comma."""
    label_column: str = "label"
    """Name of the column with the label; test files may lack it."""
    label_type: Literal["class", "number"] = "class"
    """class or number. The classes are those of the training data."""


KIND = "classification"
FIRST, SECOND, ANSWERS, INDEX = "tokens", "second", "answers", "index"
NO_CLASS = -1
CLASS_METRICS, NUMBER_METRICS = ("accuracy", "f1", "matthews"), ("pearson", "spearman")
"""Names of toolkit.metrics, which imports torch: preprocessing starts without."""


class ClassificationSplit:
    """Texts are read on demand; labels are in memory."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        tokenizer = tokenizer_of_kind(
            folder,
            ClassificationTokenizer,
            task="glue",
            holds="labeled texts",
            shared="their task and labels",
            options="--format glue, tsv or rows",
        )
        self.vocabulary, self.labels = tokenizer.vocabulary, tokenizer.labels
        column = folder.split(split).column
        self.first = TokenColumn(column(FIRST))
        self.second = TokenColumn(column(SECOND)) if self.labels.pairs else None
        stored = column(ANSWERS).read_all()
        self.is_regression = not self.labels.classes
        self.answers = stored.view(np.float64) if self.is_regression else stored
        """Class ids or numbers; -1 and NaN without a label."""
        self.labeled = ~np.isnan(self.answers) if self.is_regression else stored != NO_CLASS
        self.index = column(INDEX).read_all()
        """The benchmark's number of each row."""

    def __len__(self) -> int:
        return len(self.answers)


LABELS_FILE = "labels.json"


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels that a text or a pair may have."""

    task: str
    """GLUE's name of the task; tsv for your own tables."""
    classes: list[str]
    """Classes in the order of their ids; empty if the answer is a number."""
    metrics: list[str]
    """Metrics whose mean is the score."""
    pairs: bool
    """Whether a row has two texts."""
    bounds: list[float]
    """Minimum and maximum of the numbers; empty if unbounded."""

    @classmethod
    def of_classes(cls, classes: Sequence[str], *, pairs: bool = False) -> Labels:
        """Classes of your own, scored by accuracy; with `pairs` each row has two texts."""
        names = [] if isinstance(classes, str) else list(classes)
        if len(set(names)) < max(2, len(names)) or not all(isinstance(it, str) for it in names):
            raise ToolkitError(f"labels must be two or more different texts, but are {classes!r}.")
        return cls(task="tsv", classes=names, metrics=["accuracy"], pairs=pairs, bounds=[])

    @property
    def outputs(self) -> int:
        """Number of outputs of a model."""
        return len(self.classes) or 1

    @property
    def fingerprint(self) -> str:
        """Changes when ids mean other answers; independent of the task's name and its metrics."""
        return digest_json(self.classes)

    def __post_init__(self) -> None:
        known = CLASS_METRICS if self.classes else NUMBER_METRICS
        if not set(self.metrics) <= set(known):
            raise ToolkitError(f"metrics: expected some of {', '.join(known)}")
        if len(self.bounds) not in (0, 2):
            raise ToolkitError("bounds: expected two numbers, or none")
        if len(self.classes) == 1 or len(set(self.classes)) < len(self.classes):
            raise ToolkitError("classes: expected none, or several that differ")


class ClassificationTokenizer(WrappedTokenizer):
    """Reads text as `inner` does, and has the labels."""

    kind = "classification"

    def __init__(self, inner: Tokenizer, labels: Labels) -> None:
        super().__init__(inner, LABELS_FILE)
        self.labels = labels

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "labels": self.labels.outputs}

    @property
    def fingerprint(self) -> str:
        return f"{self.vocabulary.fingerprint} {self.labels.fingerprint}"

    def label_settings(self) -> JsonObject:
        problem = "single_label_classification" if self.labels.classes else "regression"
        return {**name_labels(self.labels.classes or ["LABEL_0"]), "problem_type": problem}

    def save(self, folder: Path | str) -> None:
        super().save(folder)
        write_json(Path(folder) / LABELS_FILE, asdict(self.labels), indent=1)

    @classmethod
    def _restore(cls, folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
        labels = read_json(folder / LABELS_FILE, Labels, "Run toolkit-preprocess again.")
        return cls(restore_inner(folder, settings, symbols), labels)


FILES: FileNames = {"train": ("train.tsv",), "valid": ("dev.tsv",), "test": ("test.tsv",)}


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """The columns of a table, its labels and their metrics."""

    name: str
    text_columns: tuple[tuple[str, ...], ...]
    """One text or two: for each, the possible names of its column."""
    label_columns: tuple[str, ...] = ("label",)
    """Possible names of the column with the label."""
    index_columns: tuple[str, ...] = ("index", "id")
    """Possible names of the column with the row number in a submission; without one rows are
    counted."""
    classes: tuple[str, ...] = ()
    """Classes as in the files, in the order of their ids; empty if the answer is a number."""
    is_regression: bool = False
    min_value: float = -float("inf")
    max_value: float = float("inf")
    metrics: tuple[str, ...] = ("accuracy",)
    """The official metrics; the task's score is their mean."""
    headerless: tuple[str, ...] = ()
    """The columns of a file without names."""
    files: FileNames = field(default_factory=lambda: FILES)
    """Split -> possible names of its file in the benchmark's folder."""

    @property
    def pairs(self) -> bool:
        return len(self.text_columns) == 2


SENTENCE, SENTENCES = (("sentence",),), (("sentence1",), ("sentence2",))
ENTAILMENT = ("entailment", "not_entailment")
YES_OR_NO = ("0", "1")
MNLI_FILES = {
    "train": ("train.tsv",),
    "valid": ("dev_matched.tsv",),
    "valid_mismatched": ("dev_mismatched.tsv",),
    "test": ("test_matched.tsv",),
    "test_mismatched": ("test_mismatched.tsv",),
}
AX_FILES = {"test": ("diagnostic.tsv", "AX.tsv", "ax.tsv", "diagnostic-full.tsv")}
MRPC_FILES = {
    "train": ("train.tsv", "msr_paraphrase_train.txt"),
    "valid": ("dev.tsv",),
    "test": ("test.tsv", "msr_paraphrase_test.txt"),
}

GLUE_SCHEMAS = {
    task.name: task
    for task in (
        TableSchema(
            name="CoLA",
            text_columns=SENTENCE,
            classes=YES_OR_NO,
            metrics=("matthews",),
            headerless=("source", "label", "mark", "sentence"),
        ),
        TableSchema(name="SST-2", text_columns=SENTENCE, classes=YES_OR_NO),
        TableSchema(
            name="MRPC",
            text_columns=(("#1 String",), ("#2 String",)),
            label_columns=("Quality",),
            classes=YES_OR_NO,
            metrics=("accuracy", "f1"),
            files=MRPC_FILES,
        ),
        TableSchema(
            name="STS-B",
            text_columns=SENTENCES,
            label_columns=("score",),
            is_regression=True,
            min_value=0.0,
            max_value=5.0,
            metrics=("pearson", "spearman"),
        ),
        TableSchema(
            name="QQP",
            text_columns=(("question1",), ("question2",)),
            label_columns=("is_duplicate",),
            classes=YES_OR_NO,
            metrics=("accuracy", "f1"),
        ),
        TableSchema(
            name="MNLI",
            text_columns=SENTENCES,
            label_columns=("gold_label",),
            classes=("entailment", "neutral", "contradiction"),
            files=MNLI_FILES,
        ),
        TableSchema(name="QNLI", text_columns=(("question",), ("sentence",)), classes=ENTAILMENT),
        TableSchema(name="RTE", text_columns=SENTENCES, classes=ENTAILMENT),
        TableSchema(name="WNLI", text_columns=SENTENCES, classes=YES_OR_NO),
        TableSchema(
            name="AX",
            text_columns=(("sentence1", "Premise"), ("sentence2", "Hypothesis")),
            label_columns=("label", "Label"),
            classes=("entailment", "neutral", "contradiction"),
            metrics=("matthews",),
            files=AX_FILES,
        ),
    )
}


UNDECIDED = "-"
"""Label of rows on which annotators did not agree, as in SNLI and MultiNLI."""


def write_submission(split: ClassificationSplit, predictions: AnyArray, path: Path) -> None:
    """Write a file, or one with the benchmark's name into a folder."""
    if path.suffix == ".zip":
        raise ToolkitError(
            f"--predictions must name a folder or a .tsv file, but is {path}. Write the "
            f"predictions of all tasks to one folder, and pack them: zip -j {path} FOLDER/*.tsv."
        )
    name = submission_file(split) if path.is_dir() else ""
    write_output(path / name, format_submission(split, predictions))


def submission_file(split: ClassificationSplit) -> str:
    """The benchmark's name of the file for a test split."""
    task = GLUE_SCHEMAS.get(split.labels.task)
    known = [name for name in task.files if name.startswith("test")] if task else []
    if split.name not in known:
        raise ToolkitError(
            f"a submission must be of a test split of GLUE, but is of {split.name!r} of "
            f"{split.labels.task}, which has {', '.join(known) or 'none'}. Write to a .tsv file."
        )
    genres = {"test": "-m", "test_mismatched": "-mm"}[split.name] * (len(known) > 1)
    return f"{split.labels.task}{genres}.tsv"


def format_submission(split: ClassificationSplit, predictions: AnyArray) -> str:
    """The table in the order of the index, whose values must be unique."""
    labels, order = split.labels, np.argsort(split.index, kind="stable")
    if len(np.unique(split.index)) < len(split):
        raise ToolkitError(
            f"every row of a submission needs its own index, but split {split.name!r} of "
            f"{split.folder.name} has one twice. Preprocess its files separately."
        )
    if split.is_regression:
        low, high = labels.bounds or (None, None)
        numbers = predictions if low is None else predictions.clip(low, high)
        form = ".3f" if labels.bounds else ".9g"  # three decimals are the benchmark's
        answers = [f"{number:{form}}" for number in numbers[order]]
    else:
        answers = [labels.classes[answer] for answer in predictions[order]]
    rows = zip(split.index[order].tolist(), answers, strict=True)
    return "index\tprediction\n" + "".join(f"{index}\t{answer}\n" for index, answer in rows)

"""The tasks of GLUE: columns, classes, metrics and files (Wang et al. 2019, table 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolkit.data.formats.classification.config import GLUE_TASKS

FILES = {"train": ("train.tsv",), "valid": ("dev.tsv",), "test": ("test.tsv",)}


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
    headerless: tuple[int, ...] = ()
    """For a file without names: the number of columns, and the columns of label and text."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: FILES)
    """Split -> possible names of its file in the benchmark's folder."""
    test_rows: int = 0
    """Number of test rows, which a submission must have; 0 if the task has none."""
    mismatched_rows: int = 0
    """Number of test rows of mismatched genres."""

    @property
    def pairs(self) -> bool:
        return len(self.text_columns) == 2

    @property
    def submissions(self) -> dict[str, tuple[str, int]]:
        """Split -> the file in a submission, and the number of rows that the benchmark requires."""
        if self.mismatched_rows:
            mismatched = (f"{self.name}-mm.tsv", self.mismatched_rows)
            return {"test": (f"{self.name}-m.tsv", self.test_rows), "test_mismatched": mismatched}
        return {"test": (f"{self.name}.tsv", self.test_rows)} if self.test_rows else {}


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
            headerless=(4, 1, 3),
            test_rows=1063,
        ),
        TableSchema(name="SST-2", text_columns=SENTENCE, classes=YES_OR_NO, test_rows=1821),
        TableSchema(
            name="MRPC",
            text_columns=(("#1 String",), ("#2 String",)),
            label_columns=("Quality",),
            classes=YES_OR_NO,
            metrics=("accuracy", "f1"),
            files=MRPC_FILES,
            test_rows=1725,
        ),
        TableSchema(
            name="STS-B",
            text_columns=SENTENCES,
            label_columns=("score",),
            is_regression=True,
            min_value=0.0,
            max_value=5.0,
            metrics=("pearson", "spearman"),
            test_rows=1379,
        ),
        TableSchema(
            name="QQP",
            text_columns=(("question1",), ("question2",)),
            label_columns=("is_duplicate",),
            classes=YES_OR_NO,
            metrics=("accuracy", "f1"),
            test_rows=390965,
        ),
        TableSchema(
            name="MNLI",
            text_columns=SENTENCES,
            label_columns=("gold_label",),
            classes=("entailment", "neutral", "contradiction"),
            files=MNLI_FILES,
            test_rows=9796,
            mismatched_rows=9847,
        ),
        TableSchema(
            name="QNLI",
            text_columns=(("question",), ("sentence",)),
            classes=ENTAILMENT,
            test_rows=5463,
        ),
        TableSchema(name="RTE", text_columns=SENTENCES, classes=ENTAILMENT, test_rows=3000),
        TableSchema(name="WNLI", text_columns=SENTENCES, classes=YES_OR_NO, test_rows=146),
        TableSchema(
            name="AX",
            text_columns=(("sentence1", "Premise"), ("sentence2", "Hypothesis")),
            label_columns=("label", "Label"),
            classes=("entailment", "neutral", "contradiction"),
            metrics=("matthews",),
            files=AX_FILES,
            test_rows=1104,
        ),
    )
}
assert tuple(GLUE_SCHEMAS) == GLUE_TASKS, "the options know the same tasks"

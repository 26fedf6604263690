"""The tasks of GLUE: columns, classes, figures and files (Wang et al. 2019, table 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolkit.config.commands.preprocess_formats import GLUE_TASKS


@dataclass(frozen=True, kw_only=True)
class LabelledTask:
    """What the rows of a table hold, and how answers to them are judged."""

    name: str
    texts: tuple[tuple[str, ...], ...]
    """One text or two: for each, the names that its column may have."""
    label: tuple[str, ...]
    """The names that the column of the answers may have."""
    index: tuple[str, ...] = ("index", "id")
    """Those of the column that numbers the rows to be answered; without one they are counted."""
    classes: tuple[str, ...] = ()
    """As the files spell them, in the order of their ids; none where the answer is a number."""
    number: bool = False
    lowest: float = -float("inf")
    highest: float = float("inf")
    figures: tuple[str, ...] = ("accuracy",)
    """The official ones; the task's score is their mean."""
    headless: tuple[int, ...] = ()
    """Where a first line without names is data: number of columns, place of answer and text."""
    files: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {
            "train": ("train.tsv",),
            "valid": ("dev.tsv",),
            "test": ("test.tsv",),
        }
    )
    """Split -> the names of its file in the benchmark's folder."""
    submitted: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Split -> the file in a submission, and how many rows the benchmark wants in it."""

    @property
    def pairs(self) -> bool:
        return len(self.texts) == 2


SENTENCES = (("sentence1",), ("sentence2",))
ENTAILMENT = ("entailment", "not_entailment")
YES_OR_NO = ("0", "1")
MATCHED = {"valid": "dev_matched.tsv", "valid_mismatched": "dev_mismatched.tsv"}
TESTS = {"test": "test_matched.tsv", "test_mismatched": "test_mismatched.tsv"}
MRPC_FILES = {
    "train": ("train.tsv", "msr_paraphrase_train.txt"),
    "valid": ("dev.tsv",),
    "test": ("test.tsv", "msr_paraphrase_test.txt"),
}

TASKS = {
    task.name: task
    for task in (
        LabelledTask(
            name="CoLA",
            texts=(("sentence",),),
            label=("label",),
            classes=YES_OR_NO,
            figures=("matthews",),
            headless=(4, 1, 3),
            submitted={"test": ("CoLA.tsv", 1063)},
        ),
        LabelledTask(
            name="SST-2",
            texts=(("sentence",),),
            label=("label",),
            classes=YES_OR_NO,
            submitted={"test": ("SST-2.tsv", 1821)},
        ),
        LabelledTask(
            name="MRPC",
            texts=(("#1 String",), ("#2 String",)),
            label=("Quality",),
            classes=YES_OR_NO,
            figures=("accuracy", "f1"),
            files=MRPC_FILES,
            submitted={"test": ("MRPC.tsv", 1725)},
        ),
        LabelledTask(
            name="STS-B",
            texts=SENTENCES,
            label=("score",),
            number=True,
            lowest=0.0,
            highest=5.0,
            figures=("pearson", "spearman"),
            submitted={"test": ("STS-B.tsv", 1379)},
        ),
        LabelledTask(
            name="QQP",
            texts=(("question1",), ("question2",)),
            label=("is_duplicate",),
            classes=YES_OR_NO,
            figures=("accuracy", "f1"),
            submitted={"test": ("QQP.tsv", 390965)},
        ),
        LabelledTask(
            name="MNLI",
            texts=SENTENCES,
            label=("gold_label",),
            classes=("entailment", "neutral", "contradiction"),
            files={
                "train": ("train.tsv",),
                **{split: (name,) for split, name in {**MATCHED, **TESTS}.items()},
            },
            submitted={"test": ("MNLI-m.tsv", 9796), "test_mismatched": ("MNLI-mm.tsv", 9847)},
        ),
        LabelledTask(
            name="QNLI",
            texts=(("question",), ("sentence",)),
            label=("label",),
            classes=ENTAILMENT,
            submitted={"test": ("QNLI.tsv", 5463)},
        ),
        LabelledTask(
            name="RTE",
            texts=SENTENCES,
            label=("label",),
            classes=ENTAILMENT,
            submitted={"test": ("RTE.tsv", 3000)},
        ),
        LabelledTask(
            name="WNLI",
            texts=SENTENCES,
            label=("label",),
            classes=YES_OR_NO,
            submitted={"test": ("WNLI.tsv", 146)},
        ),
        LabelledTask(
            name="AX",
            texts=(("sentence1", "Premise"), ("sentence2", "Hypothesis")),
            label=("label", "Label"),
            classes=("entailment", "neutral", "contradiction"),
            figures=("matthews",),
            files={"test": ("diagnostic.tsv", "AX.tsv", "ax.tsv", "diagnostic-full.tsv")},
            submitted={"test": ("AX.tsv", 1104)},
        ),
    )
}
assert tuple(TASKS) == GLUE_TASKS, "the options know the same tasks"

"""Options of toolkit-preprocess that tables of texts with a class or a number have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolkit.config.reading import READING
from toolkit.config.sections import one_of, require

LABELLED = ("glue", "tsv")
GLUE_TASKS = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI", "AX")
LABELLED_ONLY = {
    "glue_task": ("glue",),
    **dict.fromkeys(("text_columns", "label_column", "label_type"), ("tsv",)),
    "malformed": (*LABELLED, *READING),
}


@dataclass(frozen=True, kw_only=True)
class LabelledConfig:
    """Fields that only formats glue and tsv use."""

    glue_task: str = ""
    """glue: the task. CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI or AX, the diagnostic
    set, which a model of MNLI answers."""
    text_columns: str = "sentence"
    """tsv: the name of the column that has the text; of two, separated by a comma, for pairs."""
    label_column: str = "label"
    """tsv: the name of the column that has the answer; files for test may lack it."""
    label_type: str = "class"
    """tsv: class or number. Classes are those that the training part has."""
    malformed: str = "error"
    """Labelled text and questions: what becomes of a row with too few or too many columns, or with
    an answer that is none or does not stand where it says. error: the run ends and names its line.
    skip: it is left out, named and counted; not where answers are to be submitted."""

    def check_labelled(self) -> None:
        """Rules for these options; called where the others are checked."""
        form: Any = getattr(self, "format", "text")
        require(
            form != "glue" or self.glue_task in GLUE_TASKS,
            f"glue_task must be one of {', '.join(GLUE_TASKS)}, but is {self.glue_task!r}.",
        )
        one_of("label_type", self.label_type, ("class", "number"))
        one_of("malformed", self.malformed, ("error", "skip"))
        names = self.text_columns.split(",")
        require(
            len(names) in (1, 2) and all(names),
            f"text_columns must be one name, or two with a comma, but is {self.text_columns!r}.",
        )

"""Options of tables of labeled texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Options

GLUE_TASKS = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI", "AX")


@dataclass(frozen=True, kw_only=True)
class ClassificationFormatConfig(Options, section="format"):
    """Options of all tables."""

    on_malformed: Literal["error", "skip"] = "error"
    """How to handle a row with a wrong number of columns or an invalid label. error: stop and name
    its line. skip: leave it out, report and count it; not in data to be submitted."""


@dataclass(frozen=True, kw_only=True)
class GlueFormatConfig(ClassificationFormatConfig):
    """Options of the format for GLUE's tables."""

    glue_task: str = ""
    """Task: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, or AX, the diagnostic set, which
    a model of MNLI predicts."""


@dataclass(frozen=True, kw_only=True)
class TsvConfig(ClassificationFormatConfig):
    """Options of the format for your own tables."""

    text_columns: str = "sentence"
    """Name of the column with the text; for pairs two names, separated by a comma."""
    label_column: str = "label"
    """Name of the column with the label; test files may lack it."""
    label_type: Literal["class", "number"] = "class"
    """class or number. The classes are those of the training data."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.text_columns.split(",")
        if len(names) > 2 or not all(names):
            raise ToolkitError(
                f"text_columns must be one name, or two with a comma, but is {self.text_columns!r}."
            )

"""The rows of a labeled split, over all folders that have it."""

from __future__ import annotations

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.tokenizer import ClassificationTokenizer
from toolkit.data.formats.folder_kinds import check_label_ids, load_tokenizer
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import DataFolder

KIND = "classification"
FIRST, SECOND, ANSWERS, INDEX = "tokens", "second", "answers", "index"
NO_CLASS = -1


class ClassificationSplit:
    """Texts are read on demand; labels are in memory."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        options = "--format glue or tsv"
        tokenizer = load_tokenizer(
            folder, ClassificationTokenizer, task="glue", holds="labeled texts", options=options
        )
        check_same_labels(folder, tokenizer)
        self.vocabulary, self.labels = tokenizer.vocabulary, tokenizer.labels
        column = folder.split(split).column
        self.first = TokenColumn(column(FIRST))
        self.second = TokenColumn(column(SECOND)) if self.labels.pairs else None
        stored = column(ANSWERS).read_all()
        self.is_regression = not self.labels.classes
        if not self.is_regression:
            check_label_ids(folder, stored, len(self.labels.classes))
        self.answers = stored.view(np.float64) if self.is_regression else stored
        """Class ids or numbers; -1 and NaN without a label."""
        self.labeled = ~np.isnan(self.answers) if self.is_regression else stored != NO_CLASS
        self.index = column(INDEX).read_all()
        """The benchmark's number of each row."""

    def __len__(self) -> int:
        return len(self.answers)


def check_same_labels(folder: DataFolder, tokenizer: ClassificationTokenizer) -> None:
    """Raise unless all folders are of one task."""
    for source in folder.sources[1:]:
        other = source.load_tokenizer()
        if not isinstance(other, ClassificationTokenizer) or other.labels != tokenizer.labels:
            raise ToolkitError(
                f"data folders must agree on their task, but {source.path} differs from "
                f"{folder.path}. Train on one after the other, with --finetune-from."
            )

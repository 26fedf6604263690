"""The rows of a labeled split, over all folders that have it."""

from __future__ import annotations

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.tokenizer import ClassificationTokenizer, Labels
from toolkit.data.formats.tagging.split import read_column
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.columns import Column
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.vocabulary import Vocabulary

KIND = "classification"
FIRST, SECOND, ANSWERS, INDEX = "tokens", "second", "answers", "index"
NO_CLASS = -1


class ClassificationSplit:
    """Texts are read on demand; labels are in memory."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        tokenizer = load_tokenizer(folder)
        self.vocabulary: Vocabulary = tokenizer.vocabulary
        self.labels: Labels = tokenizer.labels
        columns = folder.split(split).columns
        self.first = TokenColumn(columns[FIRST])
        self.second = TokenColumn(columns[SECOND]) if self.labels.pairs else None
        stored = values(columns[ANSWERS])
        self.is_regression = not self.labels.classes
        self.answers = stored.view(np.float64) if self.is_regression else stored
        """Ids of classes or numbers; -1 and NaN without a label."""
        self.labeled = ~np.isnan(self.answers) if self.is_regression else stored != NO_CLASS
        self.index = values(columns[INDEX])
        """What the benchmark calls each row."""

    def __len__(self) -> int:
        return len(self.answers)


def values(column: Column) -> IntArray:
    return read_column(column).astype(np.int64, copy=False)


def load_tokenizer(folder: DataFolder) -> ClassificationTokenizer:
    tokenizer = folder.tokenizer
    if folder.kind != KIND or not isinstance(tokenizer, ClassificationTokenizer):
        raise ToolkitError(
            f"task glue must have a folder of labeled texts, but {folder.name} is of kind "
            f"{folder.kind}. Run toolkit-preprocess with --format glue or tsv."
        )
    for source in folder.sources[1:]:
        other = source.load_tokenizer()
        if not isinstance(other, ClassificationTokenizer) or other.labels != tokenizer.labels:
            raise ToolkitError(
                f"data folders must agree on their task, but {source.path} differs from "
                f"{folder.path}. Train on one after the other, with --finetune-from."
            )
    return tokenizer

"""The rows of a labelled split, over all folders that have it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.preprocess import (
    ANSWERS,
    FIRST,
    INDEX,
    KIND,
    NO_CLASS,
    SECOND,
)
from toolkit.data.formats.classification.tokenizer import LabelledCodec, Labels
from toolkit.data.formats.tagging.split import whole
from toolkit.data.samples.sequence_pairs import TextColumn
from toolkit.data.storage.columns import Column
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.vocabulary import Vocabulary

Numbers = npt.NDArray[np.int64]


class LabelledSplit:
    """Texts are read when they are asked for; answers are in memory."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        codec = codec_of(folder)
        self.vocabulary: Vocabulary = codec.vocabulary
        self.labels: Labels = codec.labels
        columns = folder.split(split).columns
        self.first = TextColumn(columns[FIRST])
        self.second = TextColumn(columns[SECOND]) if self.labels.pairs else None
        stored = values(columns[ANSWERS])
        self.number = not self.labels.classes
        self.answers = stored.view(np.float64) if self.number else stored
        """Ids of classes or numbers; -1 and NaN where there is none."""
        self.known = ~np.isnan(self.answers) if self.number else stored != NO_CLASS
        self.index = values(columns[INDEX])
        """What the benchmark calls each row."""

    def __len__(self) -> int:
        return len(self.answers)


def values(column: Column) -> Numbers:
    return whole(column).astype(np.int64, copy=False)


def codec_of(folder: DataFolder) -> LabelledCodec:
    codec = folder.codec
    if folder.kind != KIND or not isinstance(codec, LabelledCodec):
        raise ToolkitError(
            f"task glue must have a folder of labelled texts, but {folder.name} is of kind "
            f"{folder.kind}. Run toolkit-preprocess with --format glue or tsv."
        )
    for source in folder.sources[1:]:
        other = source.codec()
        if not isinstance(other, LabelledCodec) or other.labels != codec.labels:
            raise ToolkitError(
                f"data folders must agree on their task, but {source.path} differs from "
                f"{folder.path}. Train on one after the other, with --finetune-from."
            )
    return codec

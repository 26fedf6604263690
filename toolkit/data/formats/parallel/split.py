"""The pairs of a parallel split, over all folders that have it."""

from __future__ import annotations

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.formats.folder_kinds import check_same_tokenizer, load_tokenizer
from toolkit.data.ragged import split_rows
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.wrapped import ParallelTokenizer

KIND = "parallel"
SOURCE, TARGET_TOKENS, REFERENCE = "tokens", "target", "reference"


class ParallelSplit:
    """Source and target sentences, read on demand."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        self.tokenizer = load_tokenizer(
            folder,
            ParallelTokenizer,
            task="translation",
            holds="parallel text",
            options="--source-lang and --target-lang",
        )
        check_same_tokenizer(folder, "both vocabularies")
        columns = folder.split(split)
        self.source = TokenColumn(columns.column(SOURCE))
        self.target = TokenColumn(columns.column(TARGET_TOKENS))
        reference = columns.columns.get(REFERENCE)
        has_all = reference is not None and reference.items == columns.items
        self._reference = TokenColumn(reference) if reference is not None and has_all else None

    def __len__(self) -> int:
        return len(self.source.lengths)

    def references(self, ids: IntArray) -> list[str]:
        """Target sentences as in the file, or, if the folder lacks these, decoded from tokens."""
        column = self._reference or self.target
        rows = split_rows(*column.take(ids, column.lengths[ids]))
        if self._reference is not None:
            return [bytes(row.astype(np.uint8)).decode() for row in rows]
        return [self.tokenizer.target.decode(row.tolist()) for row in rows]

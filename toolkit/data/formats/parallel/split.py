"""The pairs of a parallel split, over all folders that have it."""

from __future__ import annotations

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.parallel import ParallelTokenizer

KIND = "parallel"
SOURCE, TARGET_TOKENS, REFERENCE = "tokens", "target", "reference"


class ParallelSplit:
    """Sentences and what they become, read when they are asked for."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        self.tokenizer = load_tokenizer(folder)
        found = folder.split(split)
        self.source = TokenColumn(found.column(SOURCE))
        self.target = TokenColumn(found.column(TARGET_TOKENS))
        reference = found.columns.get(REFERENCE)
        whole = reference is not None and reference.items == found.items
        self._reference = TokenColumn(reference) if reference is not None and whole else None

    def __len__(self) -> int:
        return len(self.source.lengths)

    def references(self, ids: IntArray) -> list[str]:
        """What these sentences should become: as in the file, or as the tokens of it spell it."""
        column = self._reference or self.target
        text = column.take(ids, column.lengths[ids])
        rows = np.split(text.ids, np.cumsum(text.lengths)[:-1])
        if self._reference is not None:
            return [bytes(row.astype(np.uint8)).decode() for row in rows]
        return [self.tokenizer.target.decode(row.tolist()) for row in rows]


def load_tokenizer(folder: DataFolder) -> ParallelTokenizer:
    tokenizer = folder.tokenizer if folder.kind == KIND else None
    if not isinstance(tokenizer, ParallelTokenizer):
        raise ToolkitError(
            f"task translation must have a folder of parallel text, but {folder.name} is of kind "
            f"{folder.kind}. Run toolkit-preprocess with --source-lang and --target-lang."
        )
    for source in folder.sources[1:]:
        if source.load_tokenizer().fingerprint != tokenizer.fingerprint:
            raise ToolkitError(
                f"data folders must agree on both vocabularies, but {source.path} differs from "
                f"{folder.path}. Preprocess one with --tokenizer-from the other."
            )
    return tokenizer

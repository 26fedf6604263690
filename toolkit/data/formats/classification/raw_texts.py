"""Texts or pairs without labels as a data folder in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.formats.classification.split import ANSWERS, FIRST, INDEX, KIND, NO_CLASS, SECOND
from toolkit.data.formats.classification.tokenizer import ClassificationTokenizer
from toolkit.data.storage.memory_folder import MemoryFolder


def encode_raw_texts(
    tokenizer: ClassificationTokenizer, items: Sequence[tuple[str, ...]]
) -> MemoryFolder:
    """A folder with one text per item, or two."""
    one = np.ones(len(items), np.int64)
    sides = (FIRST, SECOND) if tokenizer.labels.pairs else (FIRST,)
    columns: dict[str, tuple[IntArray, IntArray]] = {
        name: tokenizer.encode_lines([item[side] for item in items])
        for side, name in enumerate(sides)
    }
    no_number = np.full(len(items), np.nan).view(np.int64)
    columns[ANSWERS] = (NO_CLASS * one if tokenizer.labels.classes else no_number, one)
    columns[INDEX] = np.arange(len(items)), one
    return MemoryFolder(KIND, tokenizer, columns)

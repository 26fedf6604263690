"""Texts or pairs as a data folder in memory, with or without labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.split import ANSWERS, FIRST, INDEX, KIND, NO_CLASS, SECOND
from toolkit.data.formats.classification.tokenizer import ClassificationTokenizer, Labels
from toolkit.data.storage.memory_folder import MemoryFolder


def encode_raw_texts(
    tokenizer: ClassificationTokenizer,
    items: Sequence[tuple[str, ...]],
    labels: Sequence[object] | None = None,
) -> MemoryFolder:
    """A folder with one text per item, or two."""
    one = np.ones(len(items), np.int64)
    sides = (FIRST, SECOND) if tokenizer.labels.pairs else (FIRST,)
    columns: dict[str, tuple[IntArray, IntArray]] = {
        name: tokenizer.encode_lines([item[side] for item in items])
        for side, name in enumerate(sides)
    }
    if labels is None:
        labels = [None] * len(items)
    if len(labels) != len(items):
        raise ToolkitError(
            f"each text must have a label, but there are {len(items):,} texts and "
            f"{len(labels):,} label{'s' * (len(labels) != 1)}."
        )
    columns[ANSWERS] = encode_labels(tokenizer.labels, labels), one
    columns[INDEX] = np.arange(len(items)), one
    return MemoryFolder(KIND, tokenizer, columns)


def encode_labels(known: Labels, labels: Sequence[object]) -> IntArray:
    """The column of answers: ids of classes, or the bits of numbers; None is no label."""
    numbers = {name: number for number, name in enumerate(known.classes)}
    answers: list[float] = []
    for index, label in enumerate(labels):
        if label is None:
            answers.append(NO_CLASS if numbers else np.nan)
        elif numbers and isinstance(label, str) and label in numbers:
            answers.append(numbers[label])
        elif not numbers and isinstance(label, Real) and math.isfinite(label):
            answers.append(float(label))
        else:
            expected = f"one of {', '.join(numbers)}" if numbers else "a finite number"
            raise ToolkitError(f"labels must be {expected}, but label {index} is {label!r}.")
    if numbers:
        return np.array(answers, np.int64)
    return np.array(answers, np.float64).view(np.int64)

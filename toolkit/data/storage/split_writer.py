"""Writer of the columns of one split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.common.arrays import AnyArray, BoolArray, IntArray
from toolkit.common.json_files import JsonObject
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.tokenizers.vocabulary import Vocabulary

ColumnType = str | Vocabulary
"""A dtype such as "<i4", or the vocabulary that the values are ids of."""


class SplitWriter:
    """Writes all columns of a split item by item: call `add`, then `finish`."""

    def __init__(self, folder: Path, split: str, columns: Mapping[str, ColumnType]) -> None:
        self._writers = {
            name: open_column(folder / f"{split}.{name}", kind) for name, kind in columns.items()
        }

    @property
    def items(self) -> int:
        return next(iter(self._writers.values())).items

    def add(
        self, columns: Mapping[str, tuple[AnyArray, IntArray]], starts_document: BoolArray
    ) -> None:
        """Column -> values back to back, and the number of values of each item."""
        for name, (values, lengths) in columns.items():
            self._writers[name].add(values, lengths, starts_document)

    def finish(self) -> JsonObject:
        """The columns' entries in meta.json."""
        return {
            name: {"dtype": writer.dtype, "parts": [writer.finish()]}
            for name, writer in self._writers.items()
        }


def open_column(stem: Path, kind: ColumnType) -> ColumnWriter:
    """The writer of one part of a column."""
    if isinstance(kind, Vocabulary):
        return ColumnWriter(stem, kind.dtype, kind.fingerprint)
    return ColumnWriter(stem, kind)

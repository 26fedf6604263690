"""One part of the text to one part of every column: what a worker does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.preprocessing.holdout import assign_splits
from toolkit.data.preprocessing.length_limit import apply_length_limit
from toolkit.data.preprocessing.segmentation import Items, read_items
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.text_files import FileChunk, raise_in_chunk
from toolkit.data.tokenizers.tokenizer import Tokenizer

COLUMN = "tokens"

ProgressCallback = Callable[[int, int], None]
"""Called with bytes read and tokens written since the last call."""


@dataclass(frozen=True)
class PartTask:
    split: str
    number: int
    pieces: Sequence[FileChunk]


class _Batch(NamedTuple):
    ids: IntArray
    lengths: IntArray
    documents: IntArray


class _Target:
    """One split's share of a part; a document begins where items are no longer neighbors."""

    def __init__(self, stem: Path, tokenizer: Tokenizer, config: PreprocessConfig) -> None:
        self._words, self._config = tokenizer.vocabulary, config
        self.writer = ColumnWriter(stem, self._words.dtype, self._words.fingerprint)
        self.counts = {"unknown": 0, "empty": 0, "overlength": 0, "lost_tokens": 0}
        self._last = np.zeros((1, 2), np.int64)

    def add(self, batch: _Batch, chosen: BoolArray, runs: IntArray) -> None:
        filled = np.logical_and(chosen, batch.lengths > 0)
        self._count(empty=int(chosen.sum() - filled.sum()))
        ids, lengths = batch.ids[np.repeat(filled, batch.lengths)], batch.lengths[filled]
        where = np.stack([batch.documents, runs], 1)[filled]
        if limit := self._config.max_item_tokens:
            found = apply_length_limit(
                ids, lengths, limit, self._config.overlength, self._words.starts_word
            )
            ids, lengths, where = found.ids, found.lengths, where[found.sources]
            self._count(overlength=found.overlength, lost_tokens=found.lost)
        if len(lengths) == 0:
            return
        changes = np.diff(where, axis=0, prepend=self._last) != 0
        begins = np.logical_or(changes[:, 0], changes[:, 1])
        self._last = where[-1:]
        self.writer.add(ids, lengths, begins)
        self._count(unknown=int(np.count_nonzero(ids == self._words.unk)))

    def _count(self, **more: int) -> None:
        for name, number in more.items():
            self.counts[name] += number


def binarize(
    task: PartTask,
    config: PreprocessConfig,
    tokenizer: Tokenizer,
    folder: Path,
    report: ProgressCallback,
) -> dict[str, dict[str, Any]]:
    """Write the part; answer with each split's entry for meta.json and what was counted."""
    targets: dict[str, _Target] = {}
    items = 0
    for batch in _batches(task.pieces, config, tokenizer, report):
        numbers = np.arange(items, items + len(batch.lengths))
        items += len(numbers)
        asked = config.valid_fraction, config.test_fraction
        for share in assign_splits(task.split, numbers, *asked, task.number):
            if share.selected.any():
                if share.split not in targets:
                    stem = folder / f"{share.split}.{COLUMN}.{task.number}"
                    targets[share.split] = _Target(stem, tokenizer, config)
                targets[share.split].add(batch, share.selected, share.runs)
    return {
        split: {"part": target.writer.finish(), "counts": target.counts}
        for split, target in targets.items()
    }


def _batches(
    pieces: Sequence[FileChunk],
    config: PreprocessConfig,
    tokenizer: Tokenizer,
    report: ProgressCallback,
) -> Iterator[_Batch]:
    """Encoded items; documents are numbered through, 0 goes on with an earlier part's."""
    document = 0
    for piece in pieces:
        before, reported = document, 0
        for units in read_items(piece, config.segment_by, config.max_line_bytes):
            ids, lengths = tokenizer.encode_lines(units.items)
            if config.max_item_tokens and config.overlength == "error":
                _raise_overlength(piece, units, lengths, config.max_item_tokens)
            documents = before + np.array(units.documents, np.int64)
            document = int(documents.max(initial=document))
            report(units.read_bytes - reported, len(ids))
            reported = units.read_bytes
            yield _Batch(ids, lengths, documents)


def _raise_overlength(piece: FileChunk, units: Items, lengths: IntArray, limit: int) -> None:
    long = np.flatnonzero(lengths > limit)
    if len(long) == 0:
        return
    first = int(long[0])
    raise_in_chunk(
        piece,
        units.lines[first],
        f"expected at most {limit} tokens per item, but {units.items[first][:40]!r}... has "
        f"{lengths[first]}. Raise --max-item-tokens, or choose --overlength skip, truncate or "
        f"split.",
    )

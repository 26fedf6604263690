"""Encodes one part of the text as one part of the column of tokens: the task of a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.common.json_files import JsonObject
from toolkit.data.formats.text.config import TextFormatConfig
from toolkit.data.formats.text.holdout import assign_splits
from toolkit.data.formats.text.length_limit import apply_length_limit
from toolkit.data.preprocessing.segmentation import ItemBatch, read_items
from toolkit.data.preprocessing.workers import load_tokenizer, report_progress
from toolkit.data.rows.read import raise_at_item
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.text_files import FileChunk
from toolkit.data.tokenizers.vocabulary import Vocabulary

TOKENS = "tokens"


class PartTask(NamedTuple):
    """A part of a split's text."""

    split: str
    number: int
    chunks: Sequence[FileChunk]

    @property
    def bytes(self) -> int:
        """Size of the files' chunks."""
        return sum(chunk.size for chunk in self.chunks)


class EncodedItems(NamedTuple):
    """Token ids of items back to back, with the lengths of items and documents."""

    ids: IntArray
    lengths: IntArray
    documents: IntArray


class BinarizedPart(NamedTuple):
    """The items of one split in a part."""

    entry: JsonObject
    """The part's entry in meta.json."""
    counts: Counter[str]


class PartWriter:
    """Writes the items of one split in a part; a document starts where neighbors are missing."""

    def __init__(self, stem: Path, vocabulary: Vocabulary, options: TextFormatConfig) -> None:
        self._vocabulary, self._options = vocabulary, options
        self.column = ColumnWriter(stem, vocabulary.dtype, vocabulary.fingerprint)
        self.counts = Counter(unknown=0, empty=0, overlength=0, lost_tokens=0)
        self._last = np.zeros((1, 2), np.int64)

    def add(self, batch: EncodedItems, selected: BoolArray, runs: IntArray) -> None:
        kept = np.logical_and(selected, batch.lengths > 0)
        self.counts["empty"] += int(selected.sum() - kept.sum())
        ids, lengths = batch.ids[np.repeat(kept, batch.lengths)], batch.lengths[kept]
        neighborhood = np.stack([batch.documents, runs], 1)[kept]
        if limit := self._options.max_item_tokens:
            limited = apply_length_limit(
                ids, lengths, limit, self._options.overlength, self._vocabulary.starts_word
            )
            ids, lengths = limited.ids, limited.lengths
            neighborhood = neighborhood[limited.sources]
            self.counts.update(overlength=limited.overlength, lost_tokens=limited.lost)
        if len(lengths) == 0:
            return
        starts_document = (np.diff(neighborhood, axis=0, prepend=self._last) != 0).any(1)
        self._last = neighborhood[-1:]
        self.column.add(ids, lengths, starts_document)
        self.counts["unknown"] += int(np.count_nonzero(ids == self._vocabulary.unk))


def binarize(
    task: PartTask, *, folder: Path, options: TextFormatConfig, max_line_bytes: int
) -> dict[str, BinarizedPart]:
    """Write the items of a part, each to the part of its split."""
    writers: dict[str, PartWriter] = {}
    items = 0
    for batch in encode_chunks(task.chunks, folder, options, max_line_bytes):
        numbers = np.arange(items, items + len(batch.lengths))
        items += len(numbers)
        fractions = options.valid_fraction, options.test_fraction
        for split, selected, runs in assign_splits(task.split, numbers, *fractions, task.number):
            if selected.any():
                if split not in writers:
                    stem = folder / f"{split}.{TOKENS}.{task.number}"
                    vocabulary = load_tokenizer(folder).vocabulary
                    writers[split] = PartWriter(stem, vocabulary, options)
                writers[split].add(batch, selected, runs)
    return {
        split: BinarizedPart(writer.column.finish(), writer.counts)
        for split, writer in writers.items()
    }


def encode_chunks(
    chunks: Sequence[FileChunk], folder: Path, options: TextFormatConfig, max_line_bytes: int
) -> Iterator[EncodedItems]:
    """Encode the items; documents are numbered across chunks, and 0 continues the part before."""
    tokenizer, document = load_tokenizer(folder), 0
    for chunk in chunks:
        before, reported = document, 0
        for batch in read_items(chunk, options.segment_by, max_line_bytes):
            ids, lengths = tokenizer.encode_lines(batch.items)
            if options.max_item_tokens and options.overlength == "error":
                check_lengths(chunk, batch, lengths, options.max_item_tokens)
            documents = before + np.array(batch.documents, np.int64)
            document = int(documents.max(initial=document))
            report_progress(batch.read_bytes - reported, len(ids))
            reported = batch.read_bytes
            yield EncodedItems(ids, lengths, documents)


def check_lengths(chunk: FileChunk, batch: ItemBatch, lengths: IntArray, limit: int) -> None:
    """Raise at the first item that exceeds the limit."""
    long = np.flatnonzero(lengths > limit)
    if len(long):
        first = int(long[0])
        raise_at_item(
            chunk,
            batch.lines[first],
            f"an item must have at most {limit} tokens, but {batch.items[first][:40]!r}... has "
            f"{lengths[first]}. Raise --max-item-tokens, or choose --overlength skip, truncate or "
            f"split.",
        )

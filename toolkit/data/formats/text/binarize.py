"""Encodes one part of the text in files that are joined later: the task of a worker.

Held-out items are selected by their position alone; items with too many tokens are left out,
truncated or split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange
from toolkit.common.errors import ToolkitError
from toolkit.config.declared import NonNegativeInt, Options, Rate
from toolkit.data.preprocessing.segmentation import ItemBatch, read_items
from toolkit.data.preprocessing.workers import load_tokenizer, report_progress
from toolkit.data.records import Record
from toolkit.data.storage.column_files import CheckedColumnPart, ColumnWriter
from toolkit.data.text_files import FileChunk
from toolkit.data.tokenizers.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class TextFormatConfig(Options, section="format"):
    """Options of the format for running text."""

    segment_by: Literal["lines", "paragraphs", "sentences"] = "lines"
    """What makes an item. lines: each line (one sentence per line, as in Chang et al.); a blank
    line ends a document. paragraphs: lines up to a blank line, joined. sentences: paragraphs split
    after . ! ? if a new sentence seems to begin; suits books and other running text."""
    text_field: str = ""
    """Field or column that holds the text of each row of JSON lines, CSV, TSV, Parquet or Arrow
    files. A folder stands for its .jsonl, .ndjson, .csv, .tsv, .parquet and .arrow files."""
    rows: Literal["documents", "lines"] = "documents"
    """What the rows of --text-field are. documents: each row is read like a file. lines: all rows
    of a file are read like the lines of one; an empty row is a blank line."""
    valid_fraction: Rate = 0.0
    """Fraction of the training text to hold out as split valid: runs of 16 items at regular
    intervals, chosen by their position alone."""
    test_fraction: Rate = 0.0
    """Fraction of the training text to hold out as split test."""
    max_item_tokens: NonNegativeInt = 0
    """Maximum number of tokens per item, without special symbols; 0 for no limit."""
    overlength: Literal["error", "skip", "truncate", "split"] = "error"
    """How to handle items that exceed the limit. error: stop and name the line. skip: leave them
    out. truncate: drop their tail. split: split them into several items, before a word if
    possible. The table and meta.json give the number of items and tokens of each split."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.valid_fraction + self.test_fraction >= 1:
            raise ToolkitError(
                f"valid_fraction and test_fraction must leave text to train on, but are "
                f"{self.valid_fraction} and {self.test_fraction}."
            )


RUN_LENGTH = 16  # consecutive items that are held out together, so that neighbors stay together
HELD_STEP, TEST_STEP = (5**0.5 - 1) / 2, 2**0.5 - 1  # multiples mod 1 fill 0 .. 1 evenly


class SplitAssignment(NamedTuple):
    """The items of a batch that go to one split."""

    split: str
    selected: BoolArray
    runs: IntArray
    """Run of each item: it differs between items that are no longer neighbors in this split. 0
    continues the part before."""


def assign_splits(
    split: str, numbers: IntArray, valid_fraction: float, test_fraction: float, part: int = 0
) -> Iterator[SplitAssignment]:
    """Hold out run b of a part's runs 0, 1, 2, ... if floor(b s + phase) increases from b to b + 1.

    s is the sum of the fractions. The phases of the parts are spread evenly over 0 .. 1, so the
    fractions also hold over many parts that are shorter than 1 / s runs.
    """
    held_fraction = valid_fraction + test_fraction
    if split != "train" or held_fraction == 0:
        yield SplitAssignment(split, np.ones(len(numbers), bool), np.zeros(len(numbers), np.int64))
        return
    run = numbers // RUN_LENGTH
    phase = _phase(part, HELD_STEP)
    before = _steps(run, held_fraction, phase)
    held = _steps(run + 1, held_fraction, phase) > before
    test_of_held, phase = test_fraction / held_fraction, _phase(part, TEST_STEP)
    test = held & (_steps(before + 1, test_of_held, phase) > _steps(before, test_of_held, phase))
    yield SplitAssignment("train", ~held, before)
    yield SplitAssignment("valid", held & ~test, run + 1)
    yield SplitAssignment("test", test, run + 1)


def _phase(part: int, step: float) -> float:
    return (0.5 + part * step) % 1


def _steps(numbers: IntArray, fraction: float, phase: float) -> IntArray:
    return np.floor(numbers * fraction + phase).astype(np.int64)


class LimitedItems(NamedTuple):
    """Items within the limit."""

    ids: IntArray
    lengths: IntArray
    sources: IntArray
    """Index of the original item of each."""
    overlength: int
    """Number of items that exceeded the limit."""
    lost: int
    """Number of dropped tokens."""


def apply_length_limit(
    ids: IntArray, lengths: IntArray, limit: int, policy: str, starts_word: BoolArray
) -> LimitedItems:
    """Limit items, whose ids are back to back, to `limit` tokens by skip, truncate or split."""
    long = lengths > limit
    overlength, sources = int(long.sum()), np.arange(len(lengths))
    if overlength == 0:
        return LimitedItems(ids, lengths, sources, 0, 0)
    if policy == "split":
        pieces = _split(ids, lengths, limit, starts_word)
        counts = np.array([len(sizes) for sizes in pieces], np.int64)
        piece_lengths = np.array([size for sizes in pieces for size in sizes], np.int64)
        return LimitedItems(ids, piece_lengths, np.repeat(sources, counts), overlength, 0)
    kept_lengths = np.where(long, 0 if policy == "skip" else limit, lengths)
    kept = ids[ragged_arange(0, lengths) < np.repeat(kept_lengths, lengths)]
    stays = ~long if policy == "skip" else np.ones(len(long), bool)
    lost = len(ids) - len(kept)
    return LimitedItems(kept, kept_lengths[stays], sources[stays], overlength, lost)


def _split(ids: IntArray, lengths: IntArray, limit: int, starts_word: BoolArray) -> list[list[int]]:
    """Lengths of the pieces of each item: maximal, and cut before a word if possible."""
    pieces, ends = [], np.cumsum(lengths)
    for length, end in zip(lengths.tolist(), ends.tolist(), strict=True):
        sizes, start = [], end - length
        while end - start > limit:
            words = np.flatnonzero(starts_word[ids[start + 1 : start + limit + 1]])
            sizes.append(int(words[-1]) + 1 if len(words) else limit)
            start += sizes[-1]
        pieces.append([*sizes, end - start])
    return pieces


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
    """The items of one split in a part, and counts of them."""

    column: CheckedColumnPart
    counts: Counter[str]


class PartWriter:
    """Writes the items of one split in a part; a document starts where neighbors are missing."""

    def __init__(self, stem: Path, vocabulary: Vocabulary, options: TextFormatConfig) -> None:
        self._vocabulary, self._options = vocabulary, options
        self.column = ColumnWriter(stem, vocabulary)
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
        split: BinarizedPart(
            CheckedColumnPart(writer.column.stem, writer.column.finish()), writer.counts
        )
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
        raise Record(None, chunk, batch.lines[first]).error(
            f"an item must have at most {limit} tokens, but {batch.items[first][:40]!r}... has "
            f"{lengths[first]}. Raise --max-item-tokens, or choose --overlength skip, truncate or "
            f"split.",
        )

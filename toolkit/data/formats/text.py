"""Running text: one column of tokens, encoded in parts by all workers, which are then joined."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from toolkit.common.arrays import AnyArray, BoolArray, IntArray, ragged_arange
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.config.declared import NonNegativeInt, Options, Rate
from toolkit.data.formats.format import Block, Format, Job, SplitReport, count_column
from toolkit.data.preprocessing.choose_tokenizer import TrainingText, choose_tokenizer
from toolkit.data.preprocessing.input_files import list_row_files, plan_parts, read_items
from toolkit.data.preprocessing.workers import WorkerPool, shared_tokenizer
from toolkit.data.records import READERS, Record, begins_with_json, list_names, row_suffix
from toolkit.data.storage.column_files import WORDS, ColumnType
from toolkit.data.storage.data_folder import MemoryFolder
from toolkit.data.text_files import FileChunk, whole_file
from toolkit.data.tokenizers.offsets import clean_texts
from toolkit.data.tokenizers.tokenizer import Tokenizer, unwrap_tokenizer
from toolkit.data.tokenizers.words import WordBoundaries
from toolkit.reporting.console import Progress

HANDLED = {"skip": "left out", "truncate": "truncated", "split": "split into several"}
ROWS = ("text_field", "rows")
SPLITS = ("train", "valid", "test")
SETTINGS = ("segment_by", "valid_fraction", "test_fraction", "max_item_tokens", "overlength")


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


def check_plain(path: Path) -> None:
    """Raise if a file that is to be read as plain text has rows."""
    suffix = row_suffix(path) or ".jsonl" * begins_with_json(path)
    if suffix not in READERS:
        return
    fields = list[str]()
    with suppress(ToolkitError, StopIteration):
        values = next(READERS[suffix](whole_file(path))).values
        if isinstance(values, Mapping):
            fields = [name for name, value in values.items() if isinstance(value, str)]
    known = f": {list_names(fields)}" if fields else ""
    raise ToolkitError(
        f"{path} holds rows, not plain text. Name the field that holds the text with --text-field"
        f"{known}. Rows with labels or tags are read with --format rows."
    )


RUN_LENGTH = 16  # consecutive items that are held out together, so that neighbors stay together
HELD_STEP, TEST_STEP = (5**0.5 - 1) / 2, 2**0.5 - 1  # multiples mod 1 fill 0 .. 1 evenly


def assign_splits(
    split: str, numbers: IntArray, valid_fraction: float, test_fraction: float, part: int = 0
) -> Iterator[tuple[str, BoolArray, IntArray]]:
    """The items of a batch that go to each split, and the run of each item.

    It differs between items that are no longer neighbors in a split; 0 continues the part before.
    Hold out run b of a part's runs 0, 1, 2, ... if floor(b s + phase) increases from b to b + 1.

    s is the sum of the fractions. The phases of the parts are spread evenly over 0 .. 1, so the
    fractions also hold over many parts that are shorter than 1 / s runs.
    """
    held_fraction = valid_fraction + test_fraction
    if split != "train" or held_fraction == 0:
        yield split, np.ones(len(numbers), bool), np.zeros(len(numbers), np.int64)
        return
    run = numbers // RUN_LENGTH
    before, held = _steps(run, held_fraction, part * HELD_STEP)
    test = held & _steps(before, test_fraction / held_fraction, part * TEST_STEP)[1]
    yield "train", ~held, before
    yield "valid", held & ~test, run + 1
    yield "test", test, run + 1


def _steps(numbers: IntArray, fraction: float, offset: float) -> tuple[IntArray, BoolArray]:
    """floor(b s + phase) for the numbers b, and whether it is larger for b + 1."""
    phase = (0.5 + offset) % 1
    before, after = (np.floor(it * fraction + phase) for it in (numbers, numbers + 1))
    return before.astype(np.int64), after > before


def apply_length_limit(
    ids: IntArray, lengths: IntArray, limit: int, policy: str, words: WordBoundaries
) -> tuple[IntArray, IntArray, IntArray, int]:
    """Limit items, whose ids are back to back, to `limit` tokens by skip, truncate or split.

    More values of each token may follow its id as further rows. Returns ids, lengths, the index of
    the original item of each, and the number of long ones.
    """
    long = lengths > limit
    overlength, sources = int(long.sum()), np.arange(len(lengths))
    if overlength == 0:
        return ids, lengths, sources, 0
    if policy == "split":
        pieces = _split(words.starts(np.atleast_2d(ids)[0]), lengths, limit)
        counts = np.array([len(sizes) for sizes in pieces], np.int64)
        piece_lengths = np.array([size for sizes in pieces for size in sizes], np.int64)
        return ids, piece_lengths, np.repeat(sources, counts), overlength
    kept_lengths = np.where(long, 0 if policy == "skip" else limit, lengths)
    kept = ids[..., ragged_arange(0, lengths) < np.repeat(kept_lengths, lengths)]
    stays = ~long if policy == "skip" else np.ones(len(long), bool)
    return kept, kept_lengths[stays], sources[stays], overlength


def _split(starts_word: BoolArray, lengths: IntArray, limit: int) -> list[list[int]]:
    """Lengths of the pieces of each item: maximal, and cut before a word if possible."""
    pieces, ends = [], np.cumsum(lengths)
    for length, end in zip(lengths.tolist(), ends.tolist(), strict=True):
        sizes, start = [], end - length
        while end - start > limit:
            words = np.flatnonzero(starts_word[start + 1 : start + limit + 1])
            sizes.append(int(words[-1]) + 1 if len(words) else limit)
            start += sizes[-1]
        pieces.append([*sizes, end - start])
    return pieces


TOKENS, COUNT = "tokens", "<u1"
TextParts = list[list[FileChunk]]
"""The parts of a split's text that workers encode."""
EncodedItems = tuple[IntArray, IntArray, IntArray]
"""Token ids of items back to back and below them the words that start in each, the lengths of the
items, and the document of each."""


def encode_part(
    own: str, folder: Path, options: TextFormatConfig, limit: int, part: tuple[int, list[FileChunk]]
) -> list[Block]:
    """The items of a part in blocks of one split; a document starts where neighbors are missing."""
    (number, chunks), first, blocks = part, 0, list[Block]()
    vocabulary, last = shared_tokenizer(folder).vocabulary, dict[str, IntArray]()
    for batch in encode_chunks(chunks, folder, options, limit):
        numbers = np.arange(first, first + len(batch[1]))
        first += len(numbers)
        fractions = options.valid_fraction, options.test_fraction
        for split, selected, runs in assign_splits(own, numbers, *fractions, number):
            if not selected.any():
                continue
            ids, lengths, documents = batch
            kept: BoolArray = selected & (lengths > 0)
            counts = {"empty": int(selected.sum() - kept.sum()), "overlength": 0, "lost_tokens": 0}
            ids, lengths = ids[:, np.repeat(kept, lengths)], lengths[kept]
            neighborhood, tokens = np.stack([documents, runs], 1)[kept], ids.shape[1]
            if max_tokens := options.max_item_tokens:
                ids, lengths, sources, counts["overlength"] = apply_length_limit(
                    ids, lengths, max_tokens, options.overlength, vocabulary.words
                )
                neighborhood, counts["lost_tokens"] = neighborhood[sources], tokens - ids.shape[1]
            before = last.get(split, np.zeros((1, 2), np.int64))
            starts_document = (np.diff(neighborhood, axis=0, prepend=before) != 0).any(1)
            last[split] = np.concatenate([before, neighborhood])[-1:]
            counts |= {"unknown": int((ids[0] == vocabulary.unk).sum()), WORDS: int(ids[1].sum())}
            columns: dict[str, tuple[AnyArray, IntArray]] = {
                TOKENS: (ids[0].astype(vocabulary.dtype), lengths),
                WORDS: (ids[1].astype(COUNT), lengths),
            }
            blocks.append(Block(columns, starts_document, counts, split))
    return blocks


def encode_chunks(
    chunks: Sequence[FileChunk], folder: Path, options: TextFormatConfig, max_line_bytes: int
) -> Iterator[EncodedItems]:
    """Encode the items; documents are numbered across chunks, and 0 continues the part before."""
    tokenizer, document = shared_tokenizer(folder), 0
    for chunk in chunks:
        before = document
        for batch in read_items(chunk, options.segment_by, max_line_bytes):
            ids, lengths, words = tokenizer.encode_counting_words(batch.items)
            limit = options.max_item_tokens
            if limit and options.overlength == "error" and (long := lengths > limit).any():
                first = int(long.argmax())
                raise Record(None, chunk, batch.lines[first]).error(
                    f"an item must have at most {limit} tokens, but {batch.items[first][:40]!r}... "
                    f"has {lengths[first]}. Raise --max-item-tokens, or choose --overlength skip, "
                    f"truncate or split."
                )
            documents = before + np.array(batch.documents, np.int64)
            document = int(documents.max(initial=document))
            yield np.stack([ids, words]), lengths, documents


@register_format("text", TextFormatConfig())
class TextFormat(Format[TextParts, Tokenizer]):
    """Running text, one item per line, paragraph or sentence."""

    kind, unit = "text", "tokens"
    options: TextFormatConfig

    def check(self) -> None:
        self.held_out = {"valid": self.options.valid_fraction, "test": self.options.test_fraction}
        """Split -> the fraction of the training text that is held out for it."""
        for split, fraction in self.held_out.items():
            if fraction and split in self.config.inputs:
                raise ToolkitError(f"--{split}-fraction cannot be combined with --{split}pref.")

    def list_files(self) -> Mapping[str, list[Path]]:
        if not self.options.text_field:
            return super().list_files()
        return {split: list_row_files(split, names) for split, names in self.config.inputs.items()}

    def read_split(self, split: str, files: Sequence[Path]) -> TextParts:
        """The parts that workers write, decided by the text alone."""
        field, documents = self.options.text_field, self.options.rows == "documents"
        for path in () if field else files:
            check_plain(path)
        return plan_parts(files, self.options.segment_by, field, row_is_document=documents)

    def max_workers(self, splits: Mapping[str, TextParts]) -> int:
        return max(map(len, splits.values()), default=1)

    def choose_tokenizer(
        self, splits: Mapping[str, TextParts], folder: Path, pool: WorkerPool
    ) -> Tokenizer:
        parts = splits.get("train", [])
        text = TrainingText(parts, self.options.segment_by, self.config.max_line_bytes)
        return unwrap_tokenizer(choose_tokenizer(self.config, text, pool))

    def columns(self, split: str, tokenizer: Tokenizer) -> Mapping[str, ColumnType]:
        return {TOKENS: tokenizer.vocabulary, WORDS: COUNT}

    def encode(self, split: str, content: TextParts, job: Job[Tokenizer]) -> Iterator[Block]:
        """Workers encode parts."""
        limit = self.config.max_line_bytes
        work = partial(encode_part, split, job.folder, self.options, limit)
        size = sum(chunk.size for chunks in content for chunk in chunks)
        with Progress(f"binarizing {split}", size, "tokens") as progress:
            for (_, chunks), blocks in job.pool.imap(work, enumerate(content)):
                yield from blocks
                tokens = sum(len(block.columns[TOKENS][0]) for block in blocks)
                progress.advance(sum(chunk.size for chunk in chunks), tokens)

    def write(self, splits: Mapping[str, TextParts], job: Job[Tokenizer]) -> dict[str, JsonObject]:
        entries = super().write(splits, job)
        return {split: entries[split] for split in SPLITS if split in entries}

    def check_written(
        self, read: Sequence[str], filled: Container[str], nothing: str = "only blank lines"
    ) -> None:
        if (limit := self.options.max_item_tokens) and self.options.overlength == "skip":
            nothing = f"only lines that are blank or have more than {limit} tokens"
        super().check_written(read, filled, nothing)
        for split, fraction in self.held_out.items():
            if fraction and split not in filled:
                unit = self.options.segment_by
                choices = [f"raise --{split}-fraction", f"give --{split}pref"]
                choices += ["choose --segment-by sentences"] * (unit != "sentences")
                raise ToolkitError(
                    f"the text is too short to hold out {fraction} of it: runs of {RUN_LENGTH} "
                    f"{unit} are held out. To hold out some, {' or '.join(choices)}."
                )

    def settings(self, tokenizer: Tokenizer) -> JsonObject:
        settings = tokenizer.settings()
        del settings["special"]
        names = (*SETTINGS, *ROWS) if self.options.text_field else SETTINGS
        return {
            "tokenizer": settings.pop("kind"),
            **settings,
            **{name: getattr(self.options, name) for name in names},
        }

    def report_split(self, split: str, content: TextParts | None, entry: JsonObject) -> SplitReport:
        sizes, limit = count_column(entry["columns"][TOKENS]), self.options.max_item_tokens
        names = WORDS, "unknown", "overlength", "lost_tokens", "empty"
        counts = {name: entry[name] for name in names}
        row: dict[str, int | str] = {**sizes}
        row["unknown"] = f"{counts['unknown'] / sizes['tokens']:.3%}"
        if limit:
            row |= {f"over {limit}": counts["overlength"], "tokens lost": counts["lost_tokens"]}
        what = {
            "overlength": f"too long, {HANDLED.get(self.options.overlength)}",
            "empty": "of invisible characters only, left out",
        }
        found = {name: counts[name] for name in what if counts[name]}
        notes = [f"{split}: {n:,} item{'s' * (n != 1)} {what[name]}" for name, n in found.items()]
        return SplitReport({**sizes, **counts}, row, sizes["tokens"], notes)


def encode_raw_texts(
    tokenizer: Tokenizer, texts: Sequence[object], labels: Sequence[object] | None
) -> MemoryFolder:
    """A folder with one item per text that is not blank, as a single document."""
    if labels is not None:
        raise ToolkitError("this task learns from texts alone, but labels are given. Omit them.")
    return MemoryFolder("text", tokenizer, {"tokens": tokenizer.encode_lines(clean_texts(texts))})

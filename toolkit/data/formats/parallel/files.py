"""Sentence pairs: the files of two languages, their encoding, and the pairs of a split."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.config.declared import NonNegativeInt, Options
from toolkit.data.preprocessing.workers import load_tokenizer
from toolkit.data.samples.sequence_pairs import TokenColumn, TokenTexts
from toolkit.data.storage.data_folder import DataFolder, check_same_tokenizer, tokenizer_of_kind
from toolkit.data.text_files import (
    COMPRESSION_SUFFIXES,
    FileChunk,
    raise_at_line,
    read_lines,
    strip_compression_suffix,
)
from toolkit.data.tokenizers.wrapped import ParallelTokenizer


@dataclass(frozen=True, kw_only=True)
class ParallelFormatConfig(Options, section="format"):
    """Options of the format for parallel text."""

    source_lang: str = ""
    """Source language, such as de. trainpref P stands for the files P.de and P.en, plain, .gz,
    .xz or .zst, whose lines correspond."""
    target_lang: str = ""
    """Target language, such as en."""
    joined_dictionary: bool = False
    """Learn one vocabulary from both languages, so that models may share embedding tables, instead
    of those of the following options."""
    tgtdict: str | None = None
    """Vocabulary of target words to use, as srcdict is that of source words; learned by default."""
    target_sentencepiece_model: str | None = None
    """SentencePiece model of the target language, as sentencepiece-model is that of the source."""
    max_item_tokens: NonNegativeInt = 0
    """Maximum number of tokens on either side of a pair, without special symbols; 0 for no
    limit."""
    overlength: Literal["error", "skip", "truncate"] = "error"
    """How to handle pairs with a side that exceeds the limit. error: stop and name the line. skip:
    leave them out. truncate: drop the tail of the side."""


class FilePair(NamedTuple):
    """Two files whose lines correspond."""

    source: Path
    target: Path


class LineBlock(NamedTuple):
    """Consecutive lines of a pair of files."""

    files: FilePair
    first: int
    """Number of the first line, counted from 0."""
    source: list[str]
    target: list[str]
    read_bytes: int
    """Bytes of both files that were read for it."""


def list_file_pairs(option: str, names: str, languages: tuple[str, str]) -> list[FilePair]:
    """The pairs of files P.de and P.en of each prefix P that a comma-separated option names."""
    prefixes = [Path(name) for name in names.split(",") if name]
    return [
        FilePair(*(find_language_file(prefix, language, option) for language in languages))
        for prefix in prefixes
    ]


def find_language_file(prefix: Path, language: str, option: str) -> Path:
    """P.de, P.de.gz, P.de.xz or P.de.zst, the first that exists."""
    for suffix in COMPRESSION_SUFFIXES:
        path = prefix.parent / f"{prefix.name}.{language}{suffix}"
        if path.is_file():
            if path.stat().st_size == 0:
                raise ToolkitError(f"{path} must hold text, but is empty. Take it out of {option}.")
            return path
    languages = list_languages(prefix)
    known = f"only {', '.join(languages)}" if languages else "no such file in any language"
    raise ToolkitError(
        f"{option} must name files in both languages, but {prefix}.{language} is not there, "
        f"{known}. Give the path without the language's ending, and its languages with "
        f"--source-lang and --target-lang."
    )


def list_languages(prefix: Path) -> list[str]:
    """The languages that the prefix has files in."""
    if not prefix.name or not prefix.parent.is_dir():
        return []
    names = {strip_compression_suffix(path.name) for path in prefix.parent.iterdir()}
    start = f"{prefix.name}."
    return sorted(name.removeprefix(start) for name in names if name.startswith(start))


def read_blocks(files: FilePair, lines: int, max_line_bytes: int) -> Iterator[LineBlock]:
    """Blocks of `lines` lines of both files, which must have equally many lines."""
    readers = [LineReader(path, max_line_bytes) for path in files]
    pairs, first, reported = zip_longest(*readers), 0, 0
    while block := list(islice(pairs, lines)):
        if None in block[-1]:
            deque(pairs, maxlen=0)  # count the remaining lines
            raise ToolkitError(
                f"{files.source} and {files.target} must have equally many lines, but have "
                f"{readers[0].count:,} and {readers[1].count:,}. Line n of one must translate line "
                f"n of the other; look for a blank line at the end."
            )
        source, target = map(list, zip(*block, strict=True))
        read_bytes = sum(reader.read_bytes for reader in readers)
        yield LineBlock(files, first, source, target, read_bytes - reported)
        first, reported = first + lines, read_bytes


class LineReader:
    """The lines of a file one by one, including blank ones; counts lines and bytes."""

    def __init__(self, path: Path, max_line_bytes: int) -> None:
        self._chunks = read_lines(FileChunk(path, 0, path.stat().st_size, True), max_line_bytes)
        self.read_bytes = self.count = 0

    def __iter__(self) -> Iterator[str]:
        for chunk in self._chunks:
            self.read_bytes = chunk.read_bytes
            for line in chunk.lines:
                self.count += 1
                yield line


KIND = "parallel"
SOURCE, TARGET_TOKENS, REFERENCE = "tokens", "target", "reference"


class ParallelSplit:
    """Source and target sentences, read on demand."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        self.tokenizer = tokenizer_of_kind(
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


class EncodedPairs(NamedTuple):
    """A block of pairs as ids."""

    source: TokenTexts
    target: TokenTexts


def encode_block(folder: Path, block: LineBlock) -> EncodedPairs:
    """The block's ids, by the tokenizer of the folder."""
    tokenizer = load_tokenizer(folder)
    source = tokenizer.encode_lines(block.source)
    target = tokenizer.target.encode_lines(block.target)
    return EncodedPairs(TokenTexts(*source), TokenTexts(*target))


@dataclass(frozen=True, kw_only=True)
class PairLimits:
    """Limits on the pairs of a split, and how to handle pairs that exceed them."""

    max_tokens: int
    """Maximum number of tokens on either side; 0 for no limit."""
    policy: str
    """How to handle a pair that exceeds it: error, skip or truncate."""
    keep_empty: bool
    """Whether pairs without text on a side stay, so that every line keeps its number."""


class LimitedPairs(NamedTuple):
    """The pairs of a block that stay."""

    pairs: EncodedPairs
    kept: BoolArray
    """For each line of the block, whether it stays."""
    empty: int
    """Number of pairs that were left out because a side has no text."""
    overlength: int
    """Number of pairs that exceed the limit."""
    lost: int
    """Number of tokens of both sides that the limit drops."""


def limit_pairs(block: LineBlock, encoded: EncodedPairs, limits: PairLimits) -> LimitedPairs:
    """Leave out or truncate pairs as the limits say."""
    lengths = np.stack([encoded.source.lengths, encoded.target.lengths])
    filled: BoolArray = np.logical_or(lengths.min(0) > 0, limits.keep_empty)
    max_tokens = limits.max_tokens or int(lengths.max(initial=0))
    long = (lengths > max_tokens).any(0) & filled
    if limits.policy == "error" and long.any():
        raise_overlength(block, lengths, int(np.flatnonzero(long)[0]), max_tokens)
    kept: BoolArray = np.logical_and(filled, ~long) if limits.policy == "skip" else filled
    kept_lengths = np.where(kept, np.minimum(lengths, max_tokens), 0)
    sides = zip(encoded, kept_lengths, strict=True)
    pairs = EncodedPairs(*(truncate(text, sizes, kept) for text, sizes in sides))
    lost = int((lengths[:, long] - kept_lengths[:, long]).sum())
    return LimitedPairs(pairs, kept, int((~filled).sum()), int(long.sum()), lost)


def truncate(text: TokenTexts, lengths: IntArray, kept: BoolArray) -> TokenTexts:
    """The first tokens of each item, without the items that are left out."""
    ids = text.ids[ragged_arange(0, text.lengths) < np.repeat(lengths, text.lengths)]
    return TokenTexts(ids, lengths[kept])


def raise_overlength(block: LineBlock, lengths: IntArray, row: int, limit: int) -> NoReturn:
    """Name the file and line of a pair that exceeds the limit."""
    side = int(lengths[1, row] > limit)
    line = (block.source, block.target)[side][row]
    raise_at_line(
        block.files[side],
        1 + block.first + row,
        f"an item must have at most {limit} tokens, but {line[:40]!r}... has "
        f"{lengths[side, row]}. Raise --max-item-tokens, or choose --overlength skip or truncate.",
    )

"""Sentence pairs: the files of two languages, their encoding, and the pairs of a split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.config.declared import NonNegativeInt, Options
from toolkit.data.formats.folder_kinds import check_same_tokenizer, tokenizer_of_kind
from toolkit.data.ragged import split_rows
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.text_files import (
    COMPRESSION_SUFFIXES,
    FileChunk,
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
    first = 0
    block: list[tuple[str, str]] = []
    pairs = zip_longest(*readers)
    for source, target in pairs:
        if source is None or target is None:
            for _ in pairs:  # count the remaining lines
                pass
            raise_unequal(files, [reader.count for reader in readers])
        block.append((source, target))
        if len(block) == lines:
            yield build_block(files, first, block, readers)
            first, block = first + lines, []
    if block:
        yield build_block(files, first, block, readers)


def build_block(
    files: FilePair, first: int, pairs: list[tuple[str, str]], readers: list[LineReader]
) -> LineBlock:
    """Pairs of lines as one block, with the bytes read for them."""
    source, target = map(list, zip(*pairs, strict=True))
    read_bytes = sum(reader.take_read_bytes() for reader in readers)
    return LineBlock(files, first, source, target, read_bytes)


class LineReader:
    """The lines of a file one by one, including blank ones; counts lines and bytes."""

    def __init__(self, path: Path, max_line_bytes: int) -> None:
        self._chunks = read_lines(FileChunk(path, 0, path.stat().st_size, True), max_line_bytes)
        self._read = self._reported = self.count = 0

    def __iter__(self) -> Iterator[str]:
        for chunk in self._chunks:
            self._read = chunk.read_bytes
            for line in chunk.lines:
                self.count += 1
                yield line

    def take_read_bytes(self) -> int:
        """Bytes read since the last call."""
        new, self._reported = self._read - self._reported, self._read
        return new


def raise_unequal(files: FilePair, counts: list[int]) -> None:
    """Raise a ToolkitError about files with different numbers of lines."""
    raise ToolkitError(
        f"{files.source} and {files.target} must have equally many lines, but have {counts[0]:,} "
        f"and {counts[1]:,}. Line n of one must translate line n of the other; look for a blank "
        f"line at the end."
    )


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

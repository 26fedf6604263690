"""Parallel text: files in two languages whose lines correspond, and the pairs of a split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from toolkit.common.arrays import (
    BoolArray,
    IntArray,
    pack_rows,
    ragged_arange,
    split_rows,
)
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.declared import NonNegativeInt, Options
from toolkit.data.formats.format import Block, Format, Job, SplitReport, count_column
from toolkit.data.preprocessing.choose_tokenizer import (
    TrainingText,
    choose_tokenizer,
    load_given_tokenizer,
)
from toolkit.data.preprocessing.input_files import plan_parts
from toolkit.data.preprocessing.workers import WorkerPool, shared_tokenizer
from toolkit.data.records import read_text_lines
from toolkit.data.samples.sequence_pairs import TokenColumn, TokenTexts
from toolkit.data.storage.column_files import ColumnType
from toolkit.data.storage.data_folder import DataFolder, tokenizer_of_kind
from toolkit.data.storage.meta import select_counts
from toolkit.data.text_files import COMPRESSION_SUFFIXES, list_files, whole_file
from toolkit.data.tokenizers.tokenizer import ParallelTokenizer, Tokenizer, unwrap_tokenizer
from toolkit.reporting.console import Progress

BLOCK_LINES = 8192
ONE_PROCESS_BYTES = 4 << 20
"""Less text is encoded in this process, because starting others would take longer."""
HANDLED = {"skip": "left out", "truncate": "truncated"}


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


FilePair = tuple[Path, Path]
"""Two files whose lines correspond, that of the source language first."""
EncodedPairs = tuple[TokenTexts, TokenTexts]
"""A block of pairs as ids."""


class LineBlock(NamedTuple):
    """Consecutive lines of a pair of files."""

    files: FilePair
    first: int
    """Number of lines before them that are read."""
    lines: Sequence[int]
    """Line or row of each in its file, counted from 1."""
    source: list[str]
    target: list[str]


def find_language_file(prefix: Path, language: str, option: str) -> Path:
    """P.de, P.de.gz, P.de.xz or P.de.zst, the first that exists."""
    for suffix in COMPRESSION_SUFFIXES:
        path = prefix.parent / f"{prefix.name}.{language}{suffix}"
        if path.is_file():
            return list_files(option, str(path))[0]
    raise ToolkitError(
        f"{option} must name files in both languages, but {prefix}.{language} is not there. Give "
        f"the path without its ending, and the languages with --source-lang and --target-lang."
    )


NumberedPair = tuple[int, str, str]
"""Line or row from 1, and the two sentences."""


def read_pairs(files: FilePair, max_line_bytes: int) -> Iterator[NumberedPair]:
    """The lines of both files, which must have equally many."""
    pairs = zip_longest(*(read_text_lines(whole_file(path, max_line_bytes)) for path in files))
    for number, (one, other) in enumerate(pairs, 1):
        if one is None or other is None:
            more, counts = 1 + sum(1 for _ in pairs), [number - 1] * 2
            counts[one is None] += more
            raise ToolkitError(
                f"{files[0]} and {files[1]} must have equally many lines, but have "
                f"{counts[0]:,} and {counts[1]:,}. Line n of one must translate line n of the "
                f"other; look for a blank line at the end."
            )
        yield number, one.values.strip(), other.values.strip()


def group_pairs(
    files: FilePair, pairs: Iterator[NumberedPair], size: int = BLOCK_LINES
) -> Iterator[LineBlock]:
    """Blocks of `size` pairs."""
    first = 0
    while block := list(islice(pairs, size)):
        yield LineBlock(files, first, *map(list, zip(*block, strict=True)))
        first += len(block)


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
            shared="both vocabularies",
            options="--source-lang and --target-lang",
        )
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


def encode_block(folder: Path, block: LineBlock) -> EncodedPairs:
    """The block's ids, by the tokenizer of the folder."""
    tokenizer = shared_tokenizer(folder)
    source = tokenizer.encode_lines(block.source)
    target = tokenizer.target.encode_lines(block.target)
    return TokenTexts(*source), TokenTexts(*target)


def limit_pairs(
    block: LineBlock, encoded: EncodedPairs, options: ParallelFormatConfig, keep_empty: bool
) -> tuple[TokenTexts, TokenTexts, BoolArray, dict[str, int]]:
    """Both sides within the limit, whether each line stays, and counts. With `keep_empty`, pairs
    without text on a side stay, so that lines keep their numbers.
    """
    lengths = np.stack([side.lengths for side in encoded])
    filled: BoolArray = np.logical_or(lengths.min(0) > 0, keep_empty)
    max_tokens = options.max_item_tokens or int(lengths.max(initial=0))
    long = (lengths > max_tokens).any(0) & filled
    if options.overlength == "error" and long.any():
        row = int(np.flatnonzero(long)[0])
        side = int(lengths[1, row] > max_tokens)
        line = (block.source, block.target)[side][row]
        raise ToolkitError(
            f"{block.files[side]}:{block.lines[row]}: an item must have at most {max_tokens} "
            f"tokens, but {line[:40]!r}... has {lengths[side, row]}. Raise --max-item-tokens, or "
            f"choose --overlength skip or truncate."
        )
    kept: BoolArray = np.logical_and(filled, ~long) if options.overlength == "skip" else filled
    kept_lengths = np.where(kept, np.minimum(lengths, max_tokens), 0)
    source, target = (
        TokenTexts(
            text.ids[ragged_arange(0, text.lengths) < np.repeat(sizes, text.lengths)], sizes[kept]
        )
        for text, sizes in zip(encoded, kept_lengths, strict=True)
    )
    lost = int((lengths[:, long] - kept_lengths[:, long]).sum())
    counts = {"empty": int((~filled).sum()), "overlength": int(long.sum()), "lost_tokens": lost}
    return source, target, kept, counts


@register_format("parallel", ParallelFormatConfig())
class ParallelFormat(Format[list[FilePair], ParallelTokenizer]):
    """Two languages line by line."""

    kind, unit = KIND, "tokens"
    options: ParallelFormatConfig

    def check(self) -> None:
        self.languages = source, target = self.options.source_lang, self.options.target_lang
        if not all(self.languages):
            raise ToolkitError("parallel text requires --source-lang and --target-lang.")
        if source == target:
            raise ToolkitError(f"source_lang and target_lang must differ, but both are {source}.")

    def read(self) -> dict[str, list[FilePair]]:
        pairs: dict[str, list[FilePair]] = {}
        for split, names in self.config.inputs.items():
            prefixes = [(Path(name), f"{split}pref") for name in names.split(",") if name]
            source, target = (
                [find_language_file(prefix, language, option) for prefix, option in prefixes]
                for language in self.languages
            )
            pairs[split] = list(zip(source, target, strict=True))
        return pairs

    def max_workers(self, splits: Mapping[str, list[FilePair]]) -> int:
        pairs = (pair for content in splits.values() for pair in content)
        size = sum(path.stat().st_size for path in {path for pair in pairs for path in pair})
        return 1 if size < ONE_PROCESS_BYTES else size

    def choose_tokenizer(
        self, splits: Mapping[str, list[FilePair]], folder: Path, pool: WorkerPool
    ) -> ParallelTokenizer:
        """One vocabulary for both languages, one for each, or those of another folder."""
        given, origin = load_given_tokenizer(self.config), self.config.tokenizer_from
        if isinstance(given, ParallelTokenizer):
            if given.languages != (languages := "-".join(self.languages)):
                raise ToolkitError(
                    f"--tokenizer-from {origin} has the languages {given.languages}, not "
                    f"{languages}. Change --source-lang and --target-lang, or leave it out."
                )
            return given
        if origin and not self.options.joined_dictionary:
            raise ToolkitError(
                f"--tokenizer-from {origin} has one vocabulary, for one language. Give a folder of "
                f"parallel text, or --joined-dictionary to read both languages with it."
            )
        pairs = splits.get("train", [])
        names = dict(zip(("source_lang", "target_lang"), self.languages, strict=True))
        if self.options.joined_dictionary:
            joined = self.choose_one(pairs, (0, 1), folder, pool, self.config)
            return ParallelTokenizer(joined, None, **names)
        given_target = self.options.tgtdict or self.options.target_sentencepiece_model
        target_config = replace(
            self.config,
            tokenizer=None if given_target else self.config.tokenizer_kind,
            srcdict=self.options.tgtdict,
            sentencepiece_model=self.options.target_sentencepiece_model,
            wordpiece_vocab=None,
        )
        source = self.choose_one(pairs, (0,), folder, pool, self.config)
        target = self.choose_one(pairs, (1,), folder, pool, target_config)
        return ParallelTokenizer(source, target, **names)

    def choose_one(
        self,
        pairs: Sequence[FilePair],
        sides: Sequence[int],
        folder: Path,
        pool: WorkerPool,
        config: PreprocessConfig,
    ) -> Tokenizer:
        """A tokenizer of plain text, for one side of the pairs or both."""
        files = [pair[side] for pair in pairs for side in sides]
        parts = plan_parts(files, "lines") if files else []
        text = TrainingText(parts, "lines", self.config.max_line_bytes)
        return unwrap_tokenizer(choose_tokenizer(config, text, pool))

    def columns(self, split: str, tokenizer: ParallelTokenizer) -> Mapping[str, ColumnType]:
        """The target's text is kept for evaluation, but not in the training split."""
        reference = {} if split == "train" else {REFERENCE: "<u1"}
        vocabularies = {SOURCE: tokenizer.vocabulary, TARGET_TOKENS: tokenizer.target.vocabulary}
        return {**vocabularies, **reference}

    def read_pairs(self, split: str, files: FilePair) -> Iterator[NumberedPair]:
        """The pairs of a split in two files."""
        return read_pairs(files, self.config.max_line_bytes)

    def encode(
        self, split: str, content: list[FilePair], job: Job[ParallelTokenizer]
    ) -> Iterator[Block]:
        """Each pair of files is a document."""
        keep_empty = split != "train"
        unk, target_unk = job.tokenizer.vocabulary.unk, job.tokenizer.target.vocabulary.unk
        blocks = (it for pair in content for it in group_pairs(pair, self.read_pairs(split, pair)))
        with Progress(f"binarizing {split}", None, "tokens") as progress:
            for block, encoded in job.pool.imap(partial(encode_block, job.folder), blocks):
                source, target, kept, counts = limit_pairs(block, encoded, self.options, keep_empty)
                columns: dict[str, Any] = {SOURCE: source, TARGET_TOKENS: target}
                if keep_empty:
                    lines = zip(block.target, kept, strict=True)
                    columns[REFERENCE] = pack_rows([it.encode() for it, stays in lines if stays])
                starts_document = np.arange(len(source.lengths)) + block.first == 0
                counts["unknown"] = int((source.ids == unk).sum())
                counts["target_unknown"] = int((target.ids == target_unk).sum())
                yield Block(columns, starts_document, counts)
                progress.advance(len(source.ids) + len(target.ids))

    def settings(self, tokenizer: ParallelTokenizer) -> JsonObject:
        return {
            "tokenizer": tokenizer.inner.kind,
            "languages": tokenizer.languages,
            "joined": tokenizer.joined,
            "max_item_tokens": self.options.max_item_tokens,
            "overlength": self.options.overlength,
        }

    def describe(self, tokenizer: ParallelTokenizer) -> tuple[str, JsonObject]:
        sizes, shown = tokenizer.sizes, f"{len(tokenizer.vocabulary):,} symbols for both languages"
        if not tokenizer.joined:
            shown = f"{sizes['tokens']:,} and {sizes['targets']:,} symbols"
        facts = {"symbols": sizes["tokens"], "target_symbols": sizes["targets"]}
        return f"{tokenizer.languages}, {shown}", facts

    def report_split(
        self, split: str, content: list[FilePair] | None, entry: JsonObject
    ) -> SplitReport:
        sizes, limit = count_column(entry["columns"][SOURCE]), self.options.max_item_tokens
        pairs, tokens = sizes["items"], sizes["tokens"]
        target_tokens = count_column(entry["columns"][TARGET_TOKENS])["tokens"]
        source, target = self.languages
        row = {
            "pairs": pairs,
            f"tokens {source}": tokens,
            f"tokens {target}": target_tokens,
            f"unknown {source}": f"{entry['unknown'] / max(1, tokens):.3%}",
            f"unknown {target}": f"{entry['target_unknown'] / max(1, target_tokens):.3%}",
            "blank, left out": entry["empty"],
        }
        if limit:
            row |= {f"over {limit}": entry["overlength"], "tokens lost": entry["lost_tokens"]}
        record = {"pairs": pairs, "tokens": tokens, "target_tokens": target_tokens}
        handled, long = HANDLED.get(self.options.overlength), entry["overlength"]
        notes = [f"{split}: {long:,} pairs too long, {handled}"] if long else []
        return SplitReport({**record, **select_counts(entry)}, row, tokens + target_tokens, notes)

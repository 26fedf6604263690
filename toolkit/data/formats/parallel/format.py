"""Parallel text: files in two languages whose lines correspond."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_format
from toolkit.config.commands.preprocess import PreprocessConfig, flag
from toolkit.data.formats.format import SPLITS, Block, Format, Job, SplitReport, check_min_count
from toolkit.data.formats.parallel.config import ParallelFormatConfig
from toolkit.data.formats.parallel.encode_pairs import PairLimits, encode_block, limit_pairs
from toolkit.data.formats.parallel.files import FilePair, list_file_pairs, read_blocks
from toolkit.data.formats.parallel.split import KIND, REFERENCE, SOURCE, TARGET_TOKENS
from toolkit.data.preprocessing.choose_tokenizer import choose_tokenizer, load_given_tokenizer
from toolkit.data.preprocessing.split_files import plan_parts
from toolkit.data.preprocessing.train_tokenizer import TrainingText
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.storage.split_writer import ColumnType
from toolkit.data.tokenizers.parallel import ParallelTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.reporting.progress import Progress

LINES_AT_ONCE = 8192
ONE_PROCESS_BYTES = 4 << 20
"""Less text is encoded in this process: starting others would take longer."""
HANDLED = {"skip": "left out", "truncate": "truncated"}
TARGET_OPTIONS = {"tgtdict": "words", "target_sentencepiece_model": "sentencepiece"}


@register_format("parallel", ParallelFormatConfig())
class ParallelFormat(Format[list[FilePair]]):
    """Two languages line by line."""

    kind, unit = KIND, "tokens"

    def check(self) -> None:
        o, c = self.options, self.config
        if not (o.source_lang and o.target_lang):
            raise ToolkitError("parallel text requires --source-lang and --target-lang.")
        if o.source_lang == o.target_lang:
            raise ToolkitError(
                f"source_lang and target_lang must differ, but both are {o.source_lang}."
            )
        for name, kind in TARGET_OPTIONS.items():
            if getattr(o, name) is None:
                continue
            if o.joined_dictionary:
                raise ToolkitError(
                    f"{flag(name)} cannot be combined with --joined-dictionary: one vocabulary "
                    f"serves both languages."
                )
            if c.tokenizer_kind != kind:
                raise ToolkitError(
                    f"{flag(name)} requires --tokenizer {kind}, but the tokenizer is "
                    f"{c.tokenizer_kind}."
                )
        target_counted = not o.joined_dictionary and o.tgtdict is None
        counted = not c.vocabulary_option or (c.vocabulary_option == "srcdict" and target_counted)
        check_min_count(c, counted and c.tokenizer_kind == "words")

    @property
    def languages(self) -> tuple[str, str]:
        return self.options.source_lang, self.options.target_lang

    def read(self) -> dict[str, list[FilePair]]:
        given = {split: getattr(self.config, f"{split}pref") for split in SPLITS}
        return {
            split: list_file_pairs(f"{split}pref", names, self.languages)
            for split, names in given.items()
            if names
        }

    def read_split(self, split: str, files: Sequence[Path]) -> list[FilePair]:
        raise NotImplementedError("files are read in pairs")

    def max_workers(self, splits: Mapping[str, list[FilePair]]) -> int:
        size = sum(map(size_of_pairs, splits.values()))
        return 1 if size < ONE_PROCESS_BYTES else size

    def choose_tokenizer(
        self, splits: Mapping[str, list[FilePair]], folder: Path, pool: WorkerPool
    ) -> ParallelTokenizer:
        """One vocabulary for both languages, one for each, or those of another folder."""
        given, origin = load_given_tokenizer(self.config), self.config.tokenizer_from
        if isinstance(given, ParallelTokenizer):
            self.check_given(given)
            return given
        if origin and not self.options.joined_dictionary:
            raise ToolkitError(
                f"--tokenizer-from {origin} has one vocabulary, for one language. Give a folder of "
                f"parallel text, or --joined-dictionary to read both languages with it."
            )
        sides = [[pair[side] for pair in splits.get("train", ())] for side in (0, 1)]
        names = dict(zip(("source_lang", "target_lang"), self.languages, strict=True))
        if self.options.joined_dictionary:
            both = [path for pair in splits.get("train", ()) for path in pair]
            return ParallelTokenizer(self.tokenizer_of(both, pool), None, **names)
        target_config = replace(
            self.config,
            tokenizer=self.config.tokenizer_kind,
            srcdict=self.options.tgtdict,
            sentencepiece_model=self.options.target_sentencepiece_model,
            wordpiece_vocab=None,
        )
        source = self.tokenizer_of(sides[0], pool)
        target = self.tokenizer_of(sides[1], pool, target_config)
        return ParallelTokenizer(source, target, **names)

    def tokenizer_of(
        self, files: Sequence[Path], pool: WorkerPool, config: PreprocessConfig | None = None
    ) -> Tokenizer:
        """The tokenizer of the files, without what a given one keeps besides tokens."""
        parts = plan_parts(files, "lines") if files else []
        text = TrainingText(parts, "lines", self.config.max_line_bytes)
        tokenizer = unwrap_tokenizer(choose_tokenizer(config or self.config, text, pool))
        if tokenizer.vocabulary.sep == tokenizer.vocabulary.pad:
            raise ToolkitError(
                "the vocabulary must have a symbol that ends sentences, but that of "
                "--tokenizer-from has none. Name another, or leave it out to train one."
            )
        return tokenizer

    def check_given(self, given: ParallelTokenizer) -> None:
        origin, asked = self.config.tokenizer_from, "-".join(self.languages)
        if given.languages != asked:
            raise ToolkitError(
                f"--tokenizer-from {origin} has the languages {given.languages}, not {asked}. "
                f"Change --source-lang and --target-lang, or leave --tokenizer-from out."
            )
        if self.options.joined_dictionary and not given.joined:
            raise ToolkitError(
                f"--joined-dictionary cannot be combined with --tokenizer-from {origin}, which has "
                f"a vocabulary for each language."
            )

    def columns(self, split: str, tokenizer: Tokenizer) -> Mapping[str, ColumnType]:
        """Only data to evaluate on keeps the text of the target."""
        target = parallel(tokenizer).target.vocabulary
        reference = {} if split == "train" else {REFERENCE: "<u1"}
        return {SOURCE: tokenizer.vocabulary, TARGET_TOKENS: target, **reference}

    def encode(self, split: str, content: list[FilePair], job: Job) -> Iterator[Block]:
        """Each pair of files is a document."""
        limits = PairLimits(
            max_tokens=self.options.max_item_tokens,
            policy=self.options.overlength,
            keep_empty=split != "train",
        )
        source_unk, target_unk = (words.unk for words in vocabularies(job.tokenizer))
        blocks = (
            block
            for files in content
            for block in read_blocks(files, LINES_AT_ONCE, self.config.max_line_bytes)
        )
        with Progress(f"binarizing {split}", size_of_pairs(content), "tokens") as progress:
            for block, pairs in job.pool.imap(partial(encode_block, job.folder), blocks):
                kept = limit_pairs(block, pairs, limits)
                columns: dict[str, tuple[Any, IntArray]] = {
                    SOURCE: (kept.pairs.source.ids, kept.pairs.source.lengths),
                    TARGET_TOKENS: (kept.pairs.target.ids, kept.pairs.target.lengths),
                }
                if split != "train":
                    columns[REFERENCE] = encode_references(block.target, kept.rows)
                first = np.arange(int(kept.rows.sum())) + block.first == 0
                counts = {
                    "empty": kept.empty,
                    "overlength": kept.overlength,
                    "lost_tokens": kept.lost,
                    "unknown": int((kept.pairs.source.ids == source_unk).sum()),
                    "target_unknown": int((kept.pairs.target.ids == target_unk).sum()),
                }
                yield Block(columns, first, counts)
                progress.advance(block.read_bytes, sum(len(side.ids) for side in kept.pairs))

    def settings(self, tokenizer: Tokenizer) -> dict[str, Any]:
        return {
            "tokenizer": parallel(tokenizer).inner.kind,
            "languages": parallel(tokenizer).languages,
            "joined": parallel(tokenizer).joined,
            "max_item_tokens": self.options.max_item_tokens,
            "overlength": self.options.overlength,
        }

    def title(self, tokenizer: Tokenizer) -> str:
        source, target = (len(words) for words in vocabularies(tokenizer))
        both = f"{source:,} symbols for both languages"
        sizes = both if parallel(tokenizer).joined else f"{source:,} and {target:,} symbols"
        return f"{parallel(tokenizer).languages}, {sizes}"

    def summary(self, tokenizer: Tokenizer) -> dict[str, Any]:
        source, target = (len(words) for words in vocabularies(tokenizer))
        return {"symbols": source, "target_symbols": target}

    @property
    def heads(self) -> tuple[str, ...]:  # type: ignore[override]
        limit = self.options.max_item_tokens
        sides = [f"{what} {side}" for what in ("tokens", "unknown") for side in self.languages]
        limited = (f"over {limit}", "tokens lost") if limit else ()
        return ("pairs", *sides, "blank, left out", *limited)

    def report_split(
        self, split: str, content: list[FilePair] | None, entry: Mapping[str, Any]
    ) -> SplitReport:
        parts = {name: column["parts"][0] for name, column in entry["columns"].items()}
        pairs = parts[SOURCE]["items"]
        tokens = [parts[name]["elements"] for name in (SOURCE, TARGET_TOKENS)]
        unknown = [entry["unknown"], entry["target_unknown"]]
        counts = {name: value for name, value in entry.items() if isinstance(value, int)}
        names = ["empty", *(("overlength", "lost_tokens") if self.options.max_item_tokens else ())]
        cells = [f"{number:,}" for number in (pairs, *tokens)]
        cells += [f"{u / max(1, t):.3%}" for u, t in zip(unknown, tokens, strict=True)]
        cells += [f"{entry[name]:,}" for name in names]
        record = {"pairs": pairs, "tokens": tokens[0], "target_tokens": tokens[1], **counts}
        handled = HANDLED.get(self.options.overlength)
        long = entry["overlength"]
        notes = [f"{split}: {long:,} pairs too long, {handled}"] if long else []
        return SplitReport(record, cells, sum(tokens), notes)


def parallel(tokenizer: Tokenizer) -> ParallelTokenizer:
    assert isinstance(tokenizer, ParallelTokenizer), "chosen by this format"
    return tokenizer


def vocabularies(tokenizer: Tokenizer) -> tuple[Vocabulary, Vocabulary]:
    return tokenizer.vocabulary, parallel(tokenizer).target.vocabulary


def size_of_pairs(pairs: Sequence[FilePair]) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for pair in pairs for path in pair)


def encode_references(lines: Sequence[str], kept: BoolArray) -> tuple[Any, IntArray]:
    """The lines that stay, as bytes."""
    data = [line.encode() for line, stays in zip(lines, kept, strict=True) if stays]
    lengths = np.array([len(line) for line in data], np.int64)
    return np.frombuffer(b"".join(data), np.uint8), lengths

"""Parallel text: files in two languages whose lines correspond."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from toolkit.common.arrays import AnyArray, BoolArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.format import (
    Block,
    Format,
    Job,
    SplitReport,
    count_column,
    select_counts,
)
from toolkit.data.formats.parallel.files import (
    KIND,
    REFERENCE,
    SOURCE,
    TARGET_TOKENS,
    FilePair,
    PairLimits,
    ParallelFormatConfig,
    encode_block,
    limit_pairs,
    list_file_pairs,
    read_blocks,
)
from toolkit.data.preprocessing.choose_tokenizer import (
    TrainingText,
    choose_tokenizer,
    load_given_tokenizer,
)
from toolkit.data.preprocessing.segmentation import plan_parts
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.storage.column_files import ColumnType
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import ParallelTokenizer, unwrap_tokenizer
from toolkit.reporting.console import Progress

BLOCK_LINES = 8192
ONE_PROCESS_BYTES = 4 << 20
"""Less text is encoded in this process, because starting others would take longer."""
HANDLED = {"skip": "left out", "truncate": "truncated"}


@register_format("parallel", ParallelFormatConfig())
class ParallelFormat(Format[list[FilePair], ParallelTokenizer]):
    """Two languages line by line."""

    kind, unit = KIND, "tokens"
    options: ParallelFormatConfig

    def check(self) -> None:
        o = self.options
        if not (o.source_lang and o.target_lang):
            raise ToolkitError("parallel text requires --source-lang and --target-lang.")
        if o.source_lang == o.target_lang:
            raise ToolkitError(
                f"source_lang and target_lang must differ, but both are {o.source_lang}."
            )

    @property
    def languages(self) -> tuple[str, str]:
        return self.options.source_lang, self.options.target_lang

    def read(self) -> dict[str, list[FilePair]]:
        return {
            split: list_file_pairs(f"{split}pref", names, self.languages)
            for split, names in self.config.inputs.items()
        }

    def max_workers(self, splits: Mapping[str, list[FilePair]]) -> int:
        size = sum(map(sum_bytes, splits.values()))
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
                    f"{languages}. Change --source-lang and --target-lang, or leave "
                    f"--tokenizer-from out."
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
            files = [path for pair in pairs for path in pair]
            return ParallelTokenizer(self.choose_one(files, pool, self.config), None, **names)
        given_target = self.options.tgtdict or self.options.target_sentencepiece_model
        target_config = replace(
            self.config,
            tokenizer=None if given_target else self.config.tokenizer_kind,
            srcdict=self.options.tgtdict,
            sentencepiece_model=self.options.target_sentencepiece_model,
            wordpiece_vocab=None,
        )
        source = self.choose_one([pair.source for pair in pairs], pool, self.config)
        target = self.choose_one([pair.target for pair in pairs], pool, target_config)
        return ParallelTokenizer(source, target, **names)

    def choose_one(
        self, files: Sequence[Path], pool: WorkerPool, config: PreprocessConfig
    ) -> Tokenizer:
        """A tokenizer of plain text, for the language or languages of the files."""
        parts = plan_parts(files, "lines") if files else []
        text = TrainingText(parts, "lines", self.config.max_line_bytes)
        tokenizer = unwrap_tokenizer(choose_tokenizer(config, text, pool))
        if tokenizer.vocabulary.sep == tokenizer.vocabulary.pad:
            raise ToolkitError(
                "the vocabulary must have a symbol that ends sentences, but that of "
                "--tokenizer-from has none. Name another, or leave it out to train one."
            )
        return tokenizer

    def columns(self, split: str, tokenizer: ParallelTokenizer) -> Mapping[str, ColumnType]:
        """The target's text is kept for evaluation, but not in the training split."""
        reference = {} if split == "train" else {REFERENCE: "<u1"}
        vocabularies = {SOURCE: tokenizer.vocabulary, TARGET_TOKENS: tokenizer.target.vocabulary}
        return {**vocabularies, **reference}

    def encode(
        self, split: str, content: list[FilePair], job: Job[ParallelTokenizer]
    ) -> Iterator[Block]:
        """Each pair of files is a document."""
        limits = PairLimits(
            max_tokens=self.options.max_item_tokens,
            policy=self.options.overlength,
            keep_empty=split != "train",
        )
        source_unk = job.tokenizer.vocabulary.unk
        target_unk = job.tokenizer.target.vocabulary.unk
        blocks = (
            block
            for files in content
            for block in read_blocks(files, BLOCK_LINES, self.config.max_line_bytes)
        )
        with Progress(f"binarizing {split}", sum_bytes(content), "tokens") as progress:
            for block, encoded in job.pool.imap(partial(encode_block, job.folder), blocks):
                limited = limit_pairs(block, encoded, limits)
                source, target = limited.pairs
                columns: dict[str, tuple[AnyArray, IntArray]] = {
                    SOURCE: source,
                    TARGET_TOKENS: target,
                }
                if split != "train":
                    columns[REFERENCE] = encode_references(block.target, limited.kept)
                starts_document = np.arange(len(source.lengths)) + block.first == 0
                counts = {
                    "empty": limited.empty,
                    "overlength": limited.overlength,
                    "lost_tokens": limited.lost,
                    "unknown": int((source.ids == source_unk).sum()),
                    "target_unknown": int((target.ids == target_unk).sum()),
                }
                yield Block(columns, starts_document, counts)
                progress.advance(block.read_bytes, len(source.ids) + len(target.ids))

    def settings(self, tokenizer: ParallelTokenizer) -> JsonObject:
        return {
            "tokenizer": tokenizer.inner.kind,
            "languages": tokenizer.languages,
            "joined": tokenizer.joined,
            "max_item_tokens": self.options.max_item_tokens,
            "overlength": self.options.overlength,
        }

    def title(self, tokenizer: ParallelTokenizer) -> str:
        sizes = [f"{size:,}" for size in tokenizer.sizes.values()]
        if tokenizer.joined:
            return f"{tokenizer.languages}, {sizes[0]} symbols for both languages"
        return f"{tokenizer.languages}, {' and '.join(sizes)} symbols"

    def summary(self, tokenizer: ParallelTokenizer) -> JsonObject:
        sizes = tokenizer.sizes
        return {"symbols": sizes["tokens"], "target_symbols": sizes["targets"]}

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
        total = tokens + target_tokens
        return SplitReport({**record, **select_counts(entry)}, row, total, notes)


def sum_bytes(pairs: Sequence[FilePair]) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for pair in pairs for path in pair)


def encode_references(lines: Sequence[str], kept: BoolArray) -> tuple[AnyArray, IntArray]:
    """The lines that stay, as bytes."""
    data = [line.encode() for line, stays in zip(lines, kept, strict=True) if stays]
    lengths = np.array([len(line) for line in data], np.int64)
    return np.frombuffer(b"".join(data), np.uint8), lengths

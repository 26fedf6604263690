"""From files in two languages, line by line, to a data folder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.common.system import available_cores
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.parallel import report
from toolkit.data.formats.parallel.encode_pairs import (
    EncodedPairs,
    PairLimits,
    encode_blocks,
    limit_pairs,
)
from toolkit.data.formats.parallel.files import FilePair, LineBlock, list_file_pairs, read_blocks
from toolkit.data.formats.parallel.tokenizer import ParallelTokenizer
from toolkit.data.preprocessing.binarize import PartTask
from toolkit.data.preprocessing.choose_tokenizer import choose_tokenizer as tokenizer_of_text
from toolkit.data.preprocessing.choose_tokenizer import load_given_tokenizer
from toolkit.data.preprocessing.output_folder import create_output_folder, report_write_errors
from toolkit.data.preprocessing.split_files import plan_parts
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.storage.meta import META_FILE, build_meta, write_meta
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Progress

KIND = "parallel"
SOURCE, WRITTEN, REFERENCE = "tokens", "target", "reference"
LINES = 8192
"""Pairs that are tokenized at once."""
ONE_PROCESS_BYTES = 4 << 20
"""Less text is binarized in this process: starting others would take longer."""

Files = Mapping[str, Sequence[FilePair]]


def preprocess_parallel(config: PreprocessConfig) -> None:
    """Learn or take the vocabularies, write every split's columns, and meta.json last."""
    files = list_file_pairs(config)
    total = sum(path.stat().st_size for pairs in files.values() for it in pairs for path in it)
    workers = 1 if total < ONE_PROCESS_BYTES else config.workers or available_cores()
    with (
        Output(config.json) as output,
        create_output_folder(Path(config.destdir), overwrite=config.overwrite) as folder,
    ):
        with report_write_errors(config.destdir):
            tokenizer = build_tokenizer(config, files, workers)
            tokenizer.save(folder)
            begun = time.perf_counter()
            with (
                WorkerPool(workers, config) as pool,
                Progress("binarizing", total, "tokens") as progress,
            ):
                written = {
                    split: write_split(split, pairs, tokenizer, folder, config, pool, progress)
                    for split, pairs in files.items()
                }
            seconds = time.perf_counter() - begun
            target = tokenizer.target.vocabulary
            meta = build_meta(
                folder,
                tokenizer,
                kind=KIND,
                settings=settings_of(config, tokenizer),
                splits=written,
                target={"target_symbols": len(target), "target": target.fingerprint},
            )
            write_meta(folder / META_FILE, meta)
        report.print_summary(config.destdir, tokenizer, meta, seconds, workers, output)


def build_tokenizer(config: PreprocessConfig, files: Files, workers: int) -> ParallelTokenizer:
    """Both vocabularies: one for both languages, one for each, or those of another folder."""
    given, languages = load_given_tokenizer(config), (config.source_lang, config.target_lang)
    if isinstance(given, ParallelTokenizer):
        check_languages(given, config)
        return given
    if config.tokenizer_from and not config.joined_dictionary:
        raise ToolkitError(
            "tokenizer_from must be of parallel text to serve two languages, but "
            f"{config.tokenizer_from} "
            f"has one vocabulary. Give --joined-dictionary to read both with it."
        )
    named = dict(zip(("source_lang", "target_lang"), languages, strict=True))
    if config.joined_dictionary:
        both = [path for pair in files.get("train", ()) for path in pair]
        return ParallelTokenizer(plain(given or learned(config, both, workers)), None, **named)
    sides = [[pair[side] for pair in files.get("train", ())] for side in (0, 1)]
    source = given or learned(config, sides[0], workers)
    own = replace(
        config,
        tokenizer=config.tokenizer_kind,
        srcdict=config.tgtdict,
        sentencepiece_model=config.target_sentencepiece_model,
        wordpiece_vocab=None,
        tgtdict=None,
        target_sentencepiece_model=None,
    )
    target = load_given_tokenizer(own) or learned(own, sides[1], workers)
    return ParallelTokenizer(plain(source), plain(target), **named)


def learned(config: PreprocessConfig, paths: Sequence[Path], workers: int) -> Tokenizer:
    """From the training text in one language, or in both."""
    parts = plan_parts(paths, "lines") if paths else []
    tasks = [PartTask("train", number, part) for number, part in enumerate(parts)]
    with WorkerPool(min(workers, max(1, len(tasks))), config) as pool:
        return tokenizer_of_text(config, tasks, pool)


def plain(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of the text alone, which must be able to end a sentence."""
    found = unwrap_tokenizer(tokenizer)
    if found.vocabulary.sep == found.vocabulary.pad:
        raise ToolkitError(
            "the vocabulary must have a symbol that ends sentences, but that of tokenizer_from has "
            "none. Name another with --tokenizer-from, or leave it out to learn one."
        )
    return found


def check_languages(given: ParallelTokenizer, config: PreprocessConfig) -> None:
    asked = f"{config.source_lang}-{config.target_lang}"
    if given.languages != asked:
        raise ToolkitError(
            f"tokenizer_from must be of the same languages, but {config.tokenizer_from} is of "
            f"{given.languages}, not {asked}. Change --source-lang and --target-lang, or leave "
            f"--tokenizer-from out."
        )
    if config.joined_dictionary and not given.joined:
        raise ToolkitError(
            f"joined_dictionary must be left out, but is given beside {config.tokenizer_from}, "
            "which "
            f"has a vocabulary for each language."
        )


def write_split(
    split: str,
    pairs: Sequence[FilePair],
    tokenizer: ParallelTokenizer,
    folder: Path,
    config: PreprocessConfig,
    pool: WorkerPool,
    progress: Progress,
) -> dict[str, Any]:
    """Its columns, each pair of files a document; and what it holds."""
    writer = Writer(folder / split, tokenizer, references=split != "train")
    policy, most = config.overlength, config.max_item_tokens
    limits = PairLimits(max_tokens=most, policy=policy, keep_empty=split != "train")
    lines = (it for files in pairs for it in read_blocks(files, LINES, config.max_line_bytes))
    for block, found in encode_blocks(lines, tokenizer, folder, pool):
        fitted = limit_pairs(block, found, limits)
        writer.add(block, fitted.pairs, fitted.rows)
        writer.count(empty=fitted.empty, overlength=fitted.overlength, lost_tokens=fitted.lost)
        progress.advance(block.read_bytes, sum(len(side.ids) for side in fitted.pairs))
    if writer.writers[SOURCE].items == 0:
        raise ToolkitError(
            f"{split}pref must hold pairs of lines, but {getattr(config, f'{split}pref')} has only "
            f"pairs that are blank or too long. Give other files."
        )
    return writer.finish()


class Writer:
    """The columns of one split; the text that is to be written stands beside its tokens, where it
    is to judge by."""

    def __init__(self, stem: Path, tokenizer: ParallelTokenizer, *, references: bool) -> None:
        self.words = {SOURCE: tokenizer.vocabulary, WRITTEN: tokenizer.target.vocabulary}
        self.dtypes = {name: words.dtype for name, words in self.words.items()}
        self.dtypes |= {REFERENCE: "<u1"} if references else {}
        prints = {name: (words.fingerprint,) for name, words in self.words.items()}
        self.writers = {
            name: ColumnWriter(stem.with_name(f"{stem.name}.{name}"), dtype, *prints.get(name, ()))
            for name, dtype in self.dtypes.items()
        }
        self.counts = dict.fromkeys(
            ("empty", "overlength", "lost_tokens", "unknown", "target_unknown"), 0
        )

    def add(self, block: LineBlock, pairs: EncodedPairs, rows: Any) -> None:
        first = np.arange(int(rows.sum())) + block.first == 0
        for name, text in zip((SOURCE, WRITTEN), pairs, strict=True):
            self.writers[name].add(*text, first)
        if REFERENCE in self.writers:
            kept = [line.encode() for line, stays in zip(block.target, rows, strict=True) if stays]
            lengths = np.array([len(line) for line in kept], np.int64)
            self.writers[REFERENCE].add(np.frombuffer(b"".join(kept), np.uint8), lengths, first)
        self.count(
            unknown=int((pairs.source.ids == self.words[SOURCE].unk).sum()),
            target_unknown=int((pairs.target.ids == self.words[WRITTEN].unk).sum()),
        )

    def count(self, **more: int) -> None:
        for name, number in more.items():
            self.counts[name] += number

    def finish(self) -> dict[str, Any]:
        """The split's entry in meta.json."""
        columns = {
            name: {"dtype": self.dtypes[name], "parts": [writer.finish()]}
            for name, writer in self.writers.items()
        }
        return {**self.counts, "columns": columns}


def settings_of(config: PreprocessConfig, tokenizer: ParallelTokenizer) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer.inner.kind,
        "languages": tokenizer.languages,
        "joined": tokenizer.joined,
        "max_item_tokens": config.max_item_tokens,
        "overlength": config.overlength,
    }

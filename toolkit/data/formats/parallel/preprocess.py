"""From files in two languages, line by line, to a data folder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.common.system import cores
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.parallel import report
from toolkit.data.formats.parallel.encode_pairs import Encoded, Limits, encoded, fit
from toolkit.data.formats.parallel.files import Block, FilePair, blocks, files_of
from toolkit.data.formats.parallel.tokenizer import ParallelCodec
from toolkit.data.preprocessing.binarize import PartTask
from toolkit.data.preprocessing.choose_tokenizer import codec_for as codec_of_text
from toolkit.data.preprocessing.choose_tokenizer import given_codec
from toolkit.data.preprocessing.output_folder import destination, written_to
from toolkit.data.preprocessing.report import Progress
from toolkit.data.preprocessing.split_files import plan_parts
from toolkit.data.preprocessing.workers import Workers
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.storage.meta import META_FILE, meta_of, write_meta
from toolkit.data.tokenizers.tokenizer import Codec
from toolkit.data.tokenizers.wrapped import bare
from toolkit.reporting.json_output import Output

KIND = "parallel"
SOURCE, WRITTEN, REFERENCE = "tokens", "target", "reference"
LINES = 8192
"""Pairs that are tokenized at once."""
ONE_PROCESS_BYTES = 4 << 20
"""Less text is binarized in this process: starting others would take longer."""

Files = Mapping[str, Sequence[FilePair]]


def preprocess_parallel(config: PreprocessConfig) -> None:
    """Learn or take the vocabularies, write every split's columns, and meta.json last."""
    files = files_of(config)
    total = sum(path.stat().st_size for pairs in files.values() for it in pairs for path in it)
    workers = 1 if total < ONE_PROCESS_BYTES else config.workers or cores()
    with (
        Output(config.json) as output,
        destination(Path(config.destdir), overwrite=config.overwrite) as folder,
    ):
        with written_to(config.destdir):
            codec = codec_for(config, files, workers)
            codec.save(folder)
            begun = time.perf_counter()
            with Workers(workers, config) as pool, Progress("binarizing", total) as progress:
                written = {
                    split: write_split(split, pairs, codec, folder, config, pool, progress)
                    for split, pairs in files.items()
                }
            seconds = time.perf_counter() - begun
            target = codec.target.vocabulary
            meta = meta_of(
                folder,
                codec,
                kind=KIND,
                settings=settings_of(config, codec),
                splits=written,
                target={"target_symbols": len(target), "target": target.fingerprint},
            )
            write_meta(folder / META_FILE, meta)
        report.summary(config.destdir, codec, meta, seconds, workers, output)


def codec_for(config: PreprocessConfig, files: Files, workers: int) -> ParallelCodec:
    """Both vocabularies: one for both languages, one for each, or those of another folder."""
    given, languages = given_codec(config), (config.source_lang, config.target_lang)
    if isinstance(given, ParallelCodec):
        refuse_others(given, config)
        return given
    if config.codec_from and not config.joined_dictionary:
        raise ToolkitError(
            f"codec_from must be of parallel text to serve two languages, but {config.codec_from} "
            f"has one vocabulary. Give --joined-dictionary to read both with it."
        )
    named = dict(zip(("source_lang", "target_lang"), languages, strict=True))
    if config.joined_dictionary:
        both = [path for pair in files.get("train", ()) for path in pair]
        return ParallelCodec(plain(given or learnt(config, both, workers)), None, **named)
    sides = [[pair[side] for pair in files.get("train", ())] for side in (0, 1)]
    source = given or learnt(config, sides[0], workers)
    own = replace(
        config,
        tokenizer=config.kind,
        srcdict=config.tgtdict,
        sentencepiece_model=config.target_sentencepiece_model,
        wordpiece_vocab=None,
        tgtdict=None,
        target_sentencepiece_model=None,
    )
    target = given_codec(own) or learnt(own, sides[1], workers)
    return ParallelCodec(plain(source), plain(target), **named)


def learnt(config: PreprocessConfig, paths: Sequence[Path], workers: int) -> Codec:
    """From the training text in one language, or in both."""
    parts = plan_parts(paths, "lines") if paths else []
    tasks = [PartTask("train", number, part) for number, part in enumerate(parts)]
    with Workers(min(workers, max(1, len(tasks))), config) as pool:
        return codec_of_text(config, tasks, pool)


def plain(codec: Codec) -> Codec:
    """The codec of the text alone, which must be able to end a sentence."""
    found = bare(codec)
    if found.vocabulary.sep == found.vocabulary.pad:
        raise ToolkitError(
            "the vocabulary must have a symbol that ends sentences, but that of codec_from has "
            "none. Name another with --codec-from, or leave it out to learn one."
        )
    return found


def refuse_others(given: ParallelCodec, config: PreprocessConfig) -> None:
    asked = f"{config.source_lang}-{config.target_lang}"
    if given.languages != asked:
        raise ToolkitError(
            f"codec_from must be of the same languages, but {config.codec_from} is of "
            f"{given.languages}, not {asked}. Change --source-lang and --target-lang, or leave "
            f"--codec-from out."
        )
    if config.joined_dictionary and not given.joined:
        raise ToolkitError(
            f"joined_dictionary must be left out, but is given beside {config.codec_from}, which "
            f"has a vocabulary for each language."
        )


def write_split(
    split: str,
    pairs: Sequence[FilePair],
    codec: ParallelCodec,
    folder: Path,
    config: PreprocessConfig,
    pool: Workers,
    progress: Progress,
) -> dict[str, Any]:
    """Its columns, each pair of files a document; and what it holds."""
    writer = Writer(folder / split, codec, references=split != "train")
    policy, most = config.too_long, config.max_item_tokens
    limits = Limits(most=most, policy=policy, keep_empty=split != "train")
    lines = (it for files in pairs for it in blocks(files, LINES, config.max_line_bytes))
    for block, found in encoded(lines, codec, folder, pool):
        fitted = fit(block, found, limits)
        writer.add(block, fitted.pairs, fitted.rows)
        writer.count(empty=fitted.empty, too_long=fitted.too_long, lost_tokens=fitted.lost)
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

    def __init__(self, stem: Path, codec: ParallelCodec, *, references: bool) -> None:
        self.words = {SOURCE: codec.vocabulary, WRITTEN: codec.target.vocabulary}
        self.dtypes = {name: words.dtype for name, words in self.words.items()}
        self.dtypes |= {REFERENCE: "<u1"} if references else {}
        prints = {name: (words.fingerprint,) for name, words in self.words.items()}
        self.writers = {
            name: ColumnWriter(stem.with_name(f"{stem.name}.{name}"), dtype, *prints.get(name, ()))
            for name, dtype in self.dtypes.items()
        }
        self.counts = dict.fromkeys(
            ("empty", "too_long", "lost_tokens", "unknown", "target_unknown"), 0
        )

    def add(self, block: Block, pairs: Encoded, rows: Any) -> None:
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


def settings_of(config: PreprocessConfig, codec: ParallelCodec) -> dict[str, Any]:
    return {
        "tokenizer": codec.inner.kind,
        "languages": codec.languages,
        "joined": codec.joined,
        "max_item_tokens": config.max_item_tokens,
        "too_long": config.too_long,
    }

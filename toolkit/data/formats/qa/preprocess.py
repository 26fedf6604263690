"""From questions about texts to a data folder: tokens once, on all cores, and mapped from then on.

Windows are no part of it: which tokens each reads follows from numbers and the task's options.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.system import available_cores
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.commands.preprocess_formats import SQUAD
from toolkit.data.formats.qa import report
from toolkit.data.formats.qa.answer_spans import AnswerMismatch
from toolkit.data.formats.qa.columns import (
    CHUNKS,
    CONTEXT,
    VOCABULARY,
    QuestionChunk,
    build_chunk,
    set_tokenizer,
)
from toolkit.data.formats.qa.files import list_question_files
from toolkit.data.formats.qa.passages import Passage, QuestionSource
from toolkit.data.formats.qa.race import read_race
from toolkit.data.formats.qa.squad import read_squad
from toolkit.data.formats.qa.swag import read_swag
from toolkit.data.preprocessing.choose_tokenizer import (
    choose_tokenizer_for_texts,
    load_given_tokenizer,
)
from toolkit.data.preprocessing.output_folder import create_output_folder, report_write_errors
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.storage.meta import META_FILE, build_meta, write_meta
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.json_output import Output

MANY = 256
"""Passages that a worker reads at once."""
Sources = Mapping[str, Sequence[QuestionSource]]


def question_kind(config: PreprocessConfig) -> str:
    return "squad" if config.format == SQUAD else "choices"


def preprocess_reading(config: PreprocessConfig) -> None:
    """Read every split, learn or take the vocabulary, write the columns, and meta.json last."""
    begun = time.perf_counter()
    with (
        Output(config.json) as output,
        create_output_folder(Path(config.destdir), overwrite=config.overwrite) as folder,
    ):
        read = {
            split: [read_source(path, split, config) for path in paths]
            for split, paths in list_question_files(config).items()
        }
        check_problems(read, config)
        with report_write_errors(config.destdir):
            tokenizer = choose_tokenizer_for_texts(
                config, training_texts(read), folder, load_given_tokenizer(config)
            )
            tokenizer.save(folder)
            written, misses = write_splits(read, tokenizer, folder, config)
            meta = build_meta(
                folder,
                tokenizer,
                kind=question_kind(config),
                settings=settings_of(config, tokenizer),
                splits=written,
            )
            write_meta(folder / META_FILE, meta)
        seconds = time.perf_counter() - begun
        report.print_summary(config.destdir, meta, read, misses, seconds, output)


def read_source(path: Path, split: str, config: PreprocessConfig) -> QuestionSource:
    """Answers are wanted to learn and to judge by, not of what is to be answered."""
    most, wanted = config.max_line_bytes, split != "test"
    if config.format == SQUAD:
        return read_squad(path, most, evaluated=split != "train", answers_required=wanted)
    return (read_race if config.format == "race" else read_swag)(
        path, most, answers_required=wanted
    )


def check_problems(read: Sources, config: PreprocessConfig) -> None:
    """The first one, unless questions may be left out; none may of what is to be answered."""
    for source in (source for sources in read.values() for source in sources):
        lost = [problem for problem in source.problems if not problem.kept]
        answered = any(known(passage) for passage in source.passages)
        if lost and source.passages and not answered:
            raise ToolkitError(f"{lost[0]}{more(lost)} Correct it.")
        if source.problems and (config.on_malformed == "error" or not source.passages):
            useless = config.on_malformed == "skip" or not source.passages
            advice = "Correct it." if useless else "Correct it, or give --on-malformed skip."
            raise ToolkitError(f"{source.problems[0]}{more(source.problems)} {advice}")


def more(problems: Sequence[Any]) -> str:
    count = len(problems)
    return f" {count:,} things of this file are wrong." if count > 1 else ""


def known(passage: Passage) -> bool:
    return any(asked.labeled for asked in passage.questions) or any(
        choice.answer is not None for choice in passage.choices
    )


def training_texts(read: Sources) -> Iterator[str]:
    """Those of the training part, to learn a vocabulary from."""
    for source in read.get("train", ()):
        for passage in source.passages:
            yield passage.text
            yield from (asked.text for asked in passage.questions)
            yield from (option for choice in passage.choices for option in choice.options)


def shares(sources: Sequence[QuestionSource]) -> Iterator[list[Passage]]:
    """A worker's share each; none holds passages of two sources."""
    for source in sources:
        for begin in range(0, len(source.passages), MANY):
            yield list(source.passages[begin : begin + MANY])


def write_splits(
    read: Sources, tokenizer: Tokenizer, folder: Path, config: PreprocessConfig
) -> tuple[dict[str, dict[str, Any]], dict[str, list[AnswerMismatch]]]:
    """Split -> its entry in meta.json, and the answers that are not given back."""
    work = {split: list(shares(sources)) for split, sources in read.items()}
    workers = min(config.workers or available_cores(), max(map(len, work.values())))
    kind = question_kind(config)
    make = partial(build_chunk, kind=kind, folder=folder)
    written, misses = {}, {}
    set_tokenizer(tokenizer, folder)
    with WorkerPool(workers, config) as pool:
        for split, passages in work.items():
            chunks = pool.map(make, passages)
            misses[split] = [miss for chunk in chunks for miss in chunk.misses]
            written[split] = write_split(split, read[split], chunks, tokenizer, folder, kind)
    return written, misses


def write_split(
    split: str,
    sources: Sequence[QuestionSource],
    chunks: Sequence[QuestionChunk],
    tokenizer: Tokenizer,
    folder: Path,
    kind: str,
) -> dict[str, Any]:
    """Its columns, each passage a document; and what it holds."""
    words, dtypes = tokenizer.vocabulary, CHUNKS[kind][1]
    writers = {
        name: ColumnWriter(folder / f"{split}.{name}", words.dtype, words.fingerprint)
        if dtype == VOCABULARY
        else ColumnWriter(folder / f"{split}.{name}", dtype)
        for name, dtype in dtypes.items()
    }
    counts = Counter[str]()
    for chunk in chunks:
        firsts = chunk.columns["back"][0] == 0
        counts.update(chunk.counts)
        for name, (values, lengths) in chunk.columns.items():
            writers[name].add(values, lengths, firsts)
    problems = [problem for source in sources for problem in source.problems]
    columns: dict[str, Any] = {
        n: {"dtype": w.dtype, "parts": [w.finish()]} for n, w in writers.items()
    }
    return {
        "questions": columns[CONTEXT]["parts"][0]["items"],
        **{name: counts[name] for name in ("passages", "none", "unlabeled", "options", "answers")},
        "recovered": counts["answers"] - sum(len(chunk.misses) for chunk in chunks),
        "malformed": sum(problem.lost for problem in problems if not problem.kept),
        "mended": sum(problem.kept for problem in problems),
        "none_allowed": int(any(source.none_allowed for source in sources)),
        "files": [source.path.name for source in sources],
        "columns": columns,
    }


def settings_of(config: PreprocessConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer.kind,
        "questions": config.format,
        "malformed": config.on_malformed,
    }

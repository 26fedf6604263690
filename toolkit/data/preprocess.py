"""From raw text files to a data folder, in one command and on all cores."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.system import available_cores
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.commands.preprocess_formats import CLASSIFICATION_FORMATS, PARALLEL, QA_FORMATS
from toolkit.data.formats.classification.preprocess import preprocess_labeled
from toolkit.data.formats.parallel.preprocess import preprocess_parallel
from toolkit.data.formats.qa.preprocess import preprocess_reading
from toolkit.data.formats.tagging.preprocess import preprocess_tagged
from toolkit.data.preprocessing.binarize import COLUMN, PartTask
from toolkit.data.preprocessing.choose_tokenizer import choose_tokenizer
from toolkit.data.preprocessing.output_folder import create_output_folder, report_write_errors
from toolkit.data.preprocessing.report import print_summary
from toolkit.data.preprocessing.split_files import plan_parts
from toolkit.data.preprocessing.workers import PartResults, WorkerPool
from toolkit.data.storage.meta import META_FILE, build_meta, write_meta
from toolkit.data.text_files import list_files
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Progress

SETTINGS = ("segment_by", "valid_fraction", "test_fraction", "max_item_tokens", "overlength")


def preprocess(config: PreprocessConfig) -> None:
    """Learn or take the vocabulary, binarize every split, write meta.json last."""
    if config.format in CLASSIFICATION_FORMATS:
        preprocess_labeled(config)
        return
    if config.format in QA_FORMATS:
        preprocess_reading(config)
        return
    if config.format == PARALLEL:
        preprocess_parallel(config)
        return
    if config.format != "text":
        preprocess_tagged(config)
        return
    tasks = _plan(config)
    workers = min(config.workers or available_cores(), len(tasks))
    with (
        Output(config.json) as output,
        create_output_folder(Path(config.destdir), overwrite=config.overwrite) as folder,
        WorkerPool(workers, config) as pool,
    ):
        with report_write_errors(config.destdir):
            tokenizer = unwrap_tokenizer(choose_tokenizer(config, tasks, pool))
            tokenizer.save(folder)
            begin = time.perf_counter()
            with Progress("binarizing", _bytes(tasks), "tokens") as progress:
                found = pool.binarize(tasks, folder, progress.advance)
            seconds = time.perf_counter() - begin
            meta = build_meta(
                folder,
                tokenizer,
                kind="text",
                settings=_settings(config, tokenizer),
                splits=_splits(config, tokenizer, found),
            )
            write_meta(folder / META_FILE, meta)
        print_summary(config.destdir, meta, seconds, workers, output)


def _plan(config: PreprocessConfig) -> list[PartTask]:
    tasks = []
    for split in ("train", "valid", "test"):
        option = f"{split}pref"
        if given := getattr(config, option):
            parts = plan_parts(list_files(option, given), config.segment_by)
            tasks += [PartTask(split, number, part) for number, part in enumerate(parts)]
    return tasks


def _bytes(tasks: list[PartTask]) -> int:
    return sum(piece.size for task in tasks for piece in task.pieces)


def _settings(config: PreprocessConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    of_tokenizer = tokenizer.settings()
    del of_tokenizer["special"]
    own = {name: getattr(config, name) for name in SETTINGS}
    return {"tokenizer": of_tokenizer.pop("kind"), **of_tokenizer, **own}


def _splits(config: PreprocessConfig, tokenizer: Tokenizer, found: PartResults) -> dict[str, Any]:
    parts: dict[str, list[Any]] = defaultdict(list)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for _, splits in found:
        for split, result in splits.items():
            counts[split].update(result["counts"])
            if result["part"]["items"]:
                parts[split].append(result["part"])
    _refuse_empty(config, set(parts))
    dtype = tokenizer.vocabulary.dtype
    return {
        split: {**counts[split], "columns": {COLUMN: {"dtype": dtype, "parts": parts[split]}}}
        for split in ("train", "valid", "test")
        if split in parts
    }


def _refuse_empty(config: PreprocessConfig, filled: set[str]) -> None:
    for split in ("train", "valid", "test"):
        files = getattr(config, f"{split}pref")
        if files and split not in filled:
            raise ToolkitError(
                f"{split}pref must hold text, but {files} has only {_nothing(config)}. Give other "
                f"files."
            )
        if getattr(config, f"{split}_share", 0) and split not in filled:
            raise ToolkitError(
                f"{split}_share must hold out something, but the text is too short for a share of "
                f"{getattr(config, f'{split}_share')}. Raise it, or give --{split}pref."
            )


def _nothing(config: PreprocessConfig) -> str:
    if config.max_item_tokens and config.overlength == "skip":
        return f"lines that are blank or have more than {config.max_item_tokens} tokens"
    return "blank lines"

"""toolkit-preprocess: from files of any format to a data folder."""

from __future__ import annotations

import time
from pathlib import Path

from toolkit.common.files import report_write_errors
from toolkit.common.json_files import write_signed_json
from toolkit.common.system import available_cores
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.format import Job, create_format, print_report
from toolkit.data.preprocessing.input_files import store_streams
from toolkit.data.preprocessing.output_folder import create_output_folder
from toolkit.data.preprocessing.workers import WorkerPool, share_tokenizer
from toolkit.data.storage.meta import META_FILE, build_meta
from toolkit.reporting.console import Output


def preprocess(config: PreprocessConfig) -> None:
    """Read every split, choose or train the tokenizer, write the columns, and meta.json last."""
    create_format(config)  # checks the options before a stream is read
    with (
        Output(config.json) as output,
        create_output_folder(Path(config.destdir), overwrite=config.overwrite) as folder,
        store_streams(config, folder) as stored,
    ):
        source = create_format(stored)
        started = time.perf_counter()
        splits = source.read()
        seconds = time.perf_counter() - started
        workers = min(config.workers or available_cores(), source.max_workers(splits))
        with report_write_errors("--destdir", config.destdir), WorkerPool(workers) as pool:
            tokenizer = source.choose_tokenizer(splits, folder, pool)
            tokenizer.save(folder)
            share_tokenizer(tokenizer, folder)
            started = time.perf_counter()
            job = Job(tokenizer, folder, pool)
            files = source.write_files(splits, job)
            meta = build_meta(
                folder,
                tokenizer,
                kind=source.kind,
                settings=source.settings(tokenizer),
                splits=source.write(splits, job),
                more_files=files,
            )
            write_signed_json(folder / META_FILE, meta)
            seconds += time.perf_counter() - started
        reports = {
            split: source.report_split(split, splits.get(split), entry)
            for split, entry in meta["splits"].items()
        }
        print_report(source, tokenizer, reports, seconds, workers, output)

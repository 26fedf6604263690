"""toolkit-preprocess: from files of any format to a data folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.files import atomic_dir
from toolkit.common.json_files import write_signed_json
from toolkit.common.registry import FORMATS
from toolkit.common.system import available_cores
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.format import Job, print_report
from toolkit.data.preprocessing.workers import WorkerPool, share_tokenizer
from toolkit.data.storage.meta import META_FILE, build_meta, read_meta
from toolkit.reporting.console import Output


def preprocess(config: PreprocessConfig) -> None:
    """Read every split, choose or train the tokenizer, write the columns, and meta.json last."""
    source = FORMATS[config.format.name].factory(config.format.config, config)
    with (
        Output(config.json) as output,
        create_output_folder(Path(config.destdir), overwrite=config.overwrite) as folder,
    ):
        started = time.perf_counter()
        splits = source.read()
        seconds = time.perf_counter() - started
        workers = min(config.workers or available_cores(), source.max_workers(splits))
        with WorkerPool(workers) as pool:
            tokenizer = source.choose_tokenizer(splits, folder, pool)
            tokenizer.columns = dict(source.item_columns)
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


@contextmanager
def create_output_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A temporary folder next to `path`, or to the target of a link, that takes its name when the
    block ends without error.
    """
    with suppress(OSError, RuntimeError):  # links that form a cycle
        path = path.resolve() if path.is_symlink() else path
    if path.name in ("", "..") or path.is_symlink() or os.path.ismount(path):
        raise ToolkitError(
            f"destdir must be a folder that can be renamed, but {path} cannot. Name one in it, as "
            f"{path / 'data'}."
        )
    check_vacant(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_dir(path, sync=True, replace=overwrite) as folder:
        yield folder


def check_vacant(path: Path, overwrite: bool) -> None:
    """Raise unless a data folder can be written here."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / META_FILE).is_file():
        raise ToolkitError(
            f"destdir must be new or empty, but {path} holds something else than a data folder. "
            f"Choose another --destdir."
        )
    if not overwrite:
        raise ToolkitError(
            f"destdir must be new or empty, but {path} holds a data folder already. Choose "
            f"another --destdir, or replace it with --overwrite."
        )
    if foreign := find_foreign_file(path):
        raise ToolkitError(
            f"destdir must hold a data folder alone to be replaced, but {path} also holds "
            f"{foreign}. Choose another --destdir, or move it away."
        )


def find_foreign_file(folder: Path) -> str | None:
    """The first entry of a data folder that toolkit-preprocess did not write."""
    try:
        meta = read_meta(folder)
    except ToolkitError as error:  # whose advice, to preprocess again, would lead back here
        raise ToolkitError(
            f"destdir must hold a data folder alone to be replaced, but the content of {folder} is "
            f"unknown: its {META_FILE} is damaged, or of another program or version. Choose "
            f"another --destdir, or move it away."
        ) from error
    written = {META_FILE, *meta.files}
    columns = tuple(f"{split}.{c}" for split, it in meta.splits.items() for c in it["columns"])
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_column = name.startswith(columns) and path.suffix == ".npy"
        is_folder = path.is_dir() and any(file.startswith(f"{name}/") for file in written)
        if not (name in written or is_column or is_folder):
            return name
    return None

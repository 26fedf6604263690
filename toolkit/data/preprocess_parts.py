"""toolkit-preprocess by several processes: each writes a share of the parts, --close ends."""

from __future__ import annotations

import shlex
import time
from functools import partial
from pathlib import Path

from toolkit.common.atomic import delete
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import write_signed_json
from toolkit.common.output_files import report_write_errors
from toolkit.common.system import available_cores
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.commands.share import Share
from toolkit.config.options import to_flag
from toolkit.data.formats.format import Job, create_format
from toolkit.data.formats.report import print_rate, print_splits
from toolkit.data.formats.text.binarize import BinarizedPart, PartTask
from toolkit.data.formats.text.format import TextFormat
from toolkit.data.formats.text.records import PartRecords
from toolkit.data.preprocessing.input_streams import check_no_streams
from toolkit.data.preprocessing.output_folder import check_destdir, replace_folder
from toolkit.data.preprocessing.parts_folder import PartsFolder
from toolkit.data.preprocessing.parts_plan import PartsPlan, make_plan
from toolkit.data.preprocessing.workers import WorkerPool, share_tokenizer
from toolkit.data.storage.meta import META_FILE, build_meta
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.json_output import Output


def preprocess_share(config: PreprocessConfig) -> None:
    """Write the share of this process: those of its parts that are not finished."""
    source = create_text_format(config)
    check_no_streams(config)
    folder = PartsFolder(check_destdir(Path(config.destdir), overwrite=config.overwrite))
    with Output(config.json) as output:
        splits = source.read()
        tasks = [task for split in splits.values() for task in split]
        workers = min(config.workers or available_cores(), len(tasks))
        with report_write_errors("--destdir", folder.path), WorkerPool(workers) as pool:
            plan, tokenizer = agree_on_tokenizer(source, splits, folder, pool)
            job = Job(tokenizer, folder.data, pool)
            with folder.lock_share(config.share) as own:
                records = PartRecords(own, folder.data, plan.identity)
                share = config.share.select(tasks)
                unfinished = [task for task in share if not records.is_finished(task)]
                started = time.perf_counter()
                written = source.write_parts(unfinished, job, records)
                seconds = time.perf_counter() - started
            finished = folder.count_records()
        output.print_line(describe_share(config.share, len(share), len(unfinished)))
        tokens = sum(part.entry["elements"] for parts in written for part in parts.values())
        facts = {"destdir": config.destdir, "part": str(config.share), "parts": len(unfinished)}
        output.write("share", {**facts, **print_rate(source, tokens, seconds, workers, output)})
        output.print_line(describe_progress(config, finished, len(tasks)))


def close_folder(config: PreprocessConfig) -> None:
    """Make a data folder of the parts of all processes, after checking that all are there."""
    folder = PartsFolder(path := check_destdir(Path(config.destdir), overwrite=config.overwrite))
    with (
        Output(config.json) as output,
        report_write_errors("--destdir", config.destdir),
        folder.lock_to_close(),
    ):
        plan = folder.read_plan()
        source = create_text_format(plan.to_config(destdir=config.destdir))
        tokenizer = folder.load_tokenizer(plan)
        meta = build_meta(
            folder.data,
            tokenizer,
            kind=source.kind,
            settings=source.settings(tokenizer),
            splits=source.combine(read_parts(folder, plan), tokenizer),
        )
        write_signed_json(folder.data / META_FILE, meta)
        replace_folder(path, folder.data)
        delete(folder.path)
        entries = meta["splits"].items()
        reports = {split: source.report_split(split, None, entry) for split, entry in entries}
        total = print_splits(source, tokenizer, reports, output)
        parts, processes = sum(plan.parts.values()), plan.processes
        output.print_line(f"{count(parts, 'part')} by {count(processes, 'process', 'es')}")
        facts = {"parts": parts, "processes": processes, source.unit: total}
        output.write("close", {"destdir": config.destdir, **source.summary(tokenizer), **facts})


def create_text_format(config: PreprocessConfig) -> TextFormat:
    """The format, which must be the one that writes independent parts."""
    source = create_format(config)
    if not isinstance(source, TextFormat):
        raise ToolkitError(
            f"--part requires --format text; --format {config.format.name} is written by a single "
            f"process."
        )
    return source


def agree_on_tokenizer(
    source: TextFormat, splits: dict[str, list[PartTask]], folder: PartsFolder, pool: WorkerPool
) -> tuple[PartsPlan, Tokenizer]:
    """The plan and the tokenizer of all processes."""
    config, numbers = source.config, {split: len(tasks) for split, tasks in splits.items()}
    choose = partial(source.choose_tokenizer, splits, folder.data, pool)
    plan = make_plan(config, source.list_files(), numbers)
    plan = folder.agree(plan, choose, config.tokenizer_timeout_seconds)
    tokenizer = folder.load_tokenizer(plan)
    if option := config.vocabulary_option:
        folder.check_given_tokenizer(tokenizer, choose(), to_flag(option))
    share_tokenizer(tokenizer, folder.data)
    return plan, tokenizer


def read_parts(folder: PartsFolder, plan: PartsPlan) -> list[dict[str, BinarizedPart]]:
    """What the processes have written, in order. Raises unless they have written all parts."""
    parts, problems, again = list[dict[str, BinarizedPart]](), list[str](), list[Share]()
    tasks = [(split, number) for split, count in plan.parts.items() for number in range(count)]
    for index, (split, number) in enumerate(tasks):
        share = Share(index % plan.processes + 1, plan.processes)
        records = PartRecords(folder.records(share), folder.data, plan.identity)
        try:
            parts.append(records.read(split, number))
        except ToolkitError as error:
            problems.append(str(error))
            again.append(share)
    if problems:
        shares = ", ".join(map(str, sorted(set(again))))
        raise ToolkitError(
            f"{folder.path} cannot be closed, because {len(problems):,} of {len(tasks):,} parts "
            f"are not complete: {problems[0].removesuffix('.')}. Run --part {shares} to the end "
            f"with the same options, and close again."
        )
    return parts


def describe_share(share: Share, parts: int, written: int) -> str:
    """How many parts a process has written."""
    if not parts:
        return f"--part {share}: nothing to write, because there are fewer parts than processes"
    before = f"; {parts - written:,} were finished before" if written < parts else ""
    return f"--part {share}: wrote {written:,} of {count(parts, 'part')}{before}"


def describe_progress(config: PreprocessConfig, finished: int, parts: int) -> str:
    """How many parts all processes have written, and how to close the folder after the last."""
    progress = f"all processes together: {finished:,} of {count(parts, 'part')}"
    if finished < parts:
        return progress
    overwrite = " --overwrite" * config.overwrite
    command = f"toolkit-preprocess --destdir {shlex.quote(config.destdir)} --close{overwrite}"
    return f"{progress}. Make the data folder with: {command}"


def count(number: int, noun: str, plural: str = "s") -> str:
    """A number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}{plural * (number != 1)}"

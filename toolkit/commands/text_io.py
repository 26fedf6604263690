"""Input lines, requests, and output files and rows of toolkit-generate and toolkit-predict."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from toolkit.checkpoints.load import check_data_matches_checkpoint
from toolkit.checkpoints.save_folder import check_new_folder
from toolkit.common import json_files
from toolkit.common.arrays import split_rows
from toolkit.common.errors import ToolkitError
from toolkit.common.files import (
    atomic_dir,
    check_distinct_files,
    check_output,
    open_output,
    write_output,
)
from toolkit.common.json_files import JsonObject, write_json
from toolkit.config.commands.generate import GenerationOptions, TextGenerationConfig
from toolkit.data.formats.parallel import ParallelSplit
from toolkit.data.formats.tagging.treebanks import (
    ConlluOptions,
    TaggedSentence,
    replace_sentence_tags,
)
from toolkit.data.raw_items import to_single_line
from toolkit.data.records import FEATURES
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import Corpora, DataFolder
from toolkit.data.text_files import import_pyarrow, open_text
from toolkit.distributed import World
from toolkit.generation.generate import GenerationRequest
from toolkit.generation.output import R, Writer, print_rows, to_json_line, write_events, write_lines
from toolkit.reporting.console import Console, Output
from toolkit.tasks.text_generation import TextGenerator
from toolkit.training.data import split_names

STDIN = ("-", "/dev/stdin")


@contextmanager
def open_input(path: str, hint: str) -> Iterator[BinaryIO]:
    """The input as bytes, so that bad UTF-8 spoils only its line; terminals get the `hint`."""
    if path in STDIN:
        if sys.stdin.isatty():
            print(f"{hint}; end with Ctrl-D.", file=sys.stderr)
        yield sys.stdin.buffer
        return
    with open_text(Path(path), allow_pipe=True) as lines:
        yield lines


@contextmanager
def open_writers(
    c: GenerationOptions,
    output: Output,
    to_tsv: Callable[[R], str],
    to_console: Callable[[R], list[str]],
    to_text: Callable[[R], str] | None = None,
) -> Iterator[list[Writer[R]]]:
    """Writers to stdout and to the requested files.

    --results-path gets JSON lines, and with `to_text` also a text file of the same name.
    """
    console = Console()
    to_stdout = (
        partial(print_rows, console, to_console)
        if console.is_interactive
        else partial(write_lines, sys.stdout, to_tsv)
    )
    writers: list[Writer[R]] = [partial(write_events, output)] if c.json else []
    writers += [] if output.to_stdout else [to_stdout]
    formats: dict[Path, Callable[[R], str]] = {}
    if c.results_path is not None:
        path = Path(c.results_path)
        check_output(path)
        formats = {path: to_json_line}
        if to_text:
            text_path = path.with_suffix(".txt")
            records_path = path.with_suffix(".jsonl") if path == text_path else path
            formats = {records_path: to_json_line, text_path: to_text}
    for file in formats:
        check_distinct_files({"--input": c.input, "--json": c.json, "--results-path": file})
    with ExitStack() as stack:
        for name, to_line in formats.items():
            writers.append(partial(write_lines, stack.enter_context(open_output(name)), to_line))
        yield writers


@contextmanager
def load_requests(
    c: TextGenerationConfig, generator: TextGenerator, world: World
) -> Iterator[tuple[Iterator[GenerationRequest], int, int | None]]:
    """The requests, how many to read at a time, and their number if it is known."""
    if c.dirs:
        corpora = Corpora.open(*c.dirs, languages=generator.tokenizer.language_pair)
        build = text_requests if generator.decoder_only else pair_requests
        listed = list[GenerationRequest]()
        for name in split_names(c.gen_subset):
            folder = corpora.with_split(name)
            check_data_matches_checkpoint(folder.tokenizer, str(folder.path), generator.tokenizer)
            listed += [check_request(it, generator) for it in build(folder, name, generator)]
        requests = (request._replace(number=n) for n, request in enumerate(listed, 1))
        yield requests, c.buffer_size, len(listed)
        return
    unit = "text to continue" if generator.decoder_only else "sentence to translate"
    with open_input(c.input, f"Type one {unit} per line") as lines:
        interactive = world.is_main and world.size == 1 and lines.isatty()
        size = 1 if interactive else c.buffer_size
        yield read_requests(lines, generator, world, size), size, None


def read_requests(
    lines: Iterator[bytes], generator: TextGenerator, world: World, size: int
) -> Iterator[GenerationRequest]:
    """One request per line; the first rank reads for all, this many lines at a time."""
    numbers = count(1)
    while True:
        buffer = list(islice(lines, size)) if world.is_main else []
        hex_lines = json.loads(world.broadcast(json.dumps([line.hex() for line in buffer])))
        if not hex_lines:
            return
        for line in hex_lines:
            yield generator.read_line(next(numbers), bytes.fromhex(line))


def pair_requests(
    folder: DataFolder, name: str, generator: TextGenerator
) -> Iterator[GenerationRequest]:
    """Requests for the sources of a split of parallel text."""
    split, c = ParallelSplit(folder, name), generator.c
    sources, targets = list_tokens(split.source), list_tokens(split.target)
    references = split.references(np.arange(len(split)))
    for source, target, reference in zip(sources, targets, references, strict=True):
        prefix = target if c.score_reference else target[: c.prefix_size]
        yield GenerationRequest(0, split.tokenizer.decode(source), source, prefix, reference)


def text_requests(
    folder: DataFolder, name: str, generator: TextGenerator
) -> Iterator[GenerationRequest]:
    """Items of a text: the first `prefix_size` tokens as a prompt, or all of them to score."""
    c, column = generator.c, TokenColumn(folder.split(name).column("tokens"))
    for tokens in list_tokens(column):
        prompt = tokens[: c.prefix_size or len(tokens)]
        source, target = ([], tokens) if c.score_reference else (prompt, [])
        yield GenerationRequest(0, generator.tokenizer.decode(source or target), source, target)


def list_tokens(column: TokenColumn) -> list[list[int]]:
    """The token ids of every item of a column."""
    text = column.take(np.arange(len(column.lengths)), column.lengths)
    return [row.tolist() for row in split_rows(*text)]


def check_request(request: GenerationRequest, generator: TextGenerator) -> GenerationRequest:
    """The request, or an empty one with a note if the models cannot process it."""
    try:
        if not (request.source or (generator.decoder_only and request.target)):
            raise ToolkitError("empty")
        generator.check_lengths(request.source, request.target)
    except ToolkitError as error:
        return request._replace(source=[], target=[], note=str(error))
    return request


class InputRecord(NamedTuple):
    """A line of the input, a row, or a sentence of CoNLL-U."""

    line: int
    """Its line or row, or that of the sentence's first word or comment, from 1."""
    item: Any = None
    """The item as the task's Predictor parses it; None if the line is malformed."""
    problem: str = ""
    """File, line and what is wrong; empty if nothing is."""
    values: Mapping[str, object] | None = None
    """The columns of a row, or an object; None if it has no names."""
    sentence: TaggedSentence | None = None
    """The sentence of CoNLL-U."""


Answer = tuple[InputRecord, Any]
"""A record and its prediction, a NamedTuple, which is None for a malformed one."""
DATA_FILE = "data-00000-of-00001.arrow"
WriteAnswers = Callable[[Sequence[Answer]], None]


@contextmanager
def open_answers(
    kind: str, path: str, columns: Sequence[str], options: ConlluOptions, features: bytes
) -> Iterator[WriteAnswers]:
    """Writes answers to a file of this kind; `columns` are those of a prediction in a table.

    `features` are the types of the input's columns, as Hugging Face stores them.
    """
    if kind in ("parquet", "arrow", "dataset"):
        if kind == "dataset":
            check_new_folder(Path(path), "--output")
        tables: list[Any] = []
        yield lambda answers: tables.append(to_table([to_row(*it) for it in answers]))
        write_tables(kind, path, tables, features)
        return
    with open_output(path) as file:
        names: list[str] | None = [] if kind == "text" else None  # of the input's columns

        def write(answers: Sequence[Answer]) -> None:
            nonlocal names
            if kind == "jsonl":
                rows = (json_files.dumps(to_row(*it), default=str) for it in answers)
                file.writelines(f"{row}\n" for row in rows)
            elif kind == "conllu":
                file.writelines(format_conllu(*it, options) for it in answers)
            else:
                table = list[list[str]]()
                if names is None:
                    names = next(([*it.values] for it, _ in answers if it.values is not None), [])
                    table.append([*names, *(rename(name, names) for name in columns)])
                table += [to_cells(*it, names, columns) for it in answers]
                if kind == "csv":
                    csv.writer(file, lineterminator="\n").writerows(table)
                else:
                    file.writelines("\t".join(map(to_single_line, it)) + "\n" for it in table)
            file.flush()

        yield write


def rename(name: str, columns: Container[str]) -> str:
    """The name of a column of the prediction in a table with those of the input."""
    return f"predicted_{name}" if name in columns else name


def to_json_record(record: InputRecord, prediction: Any) -> dict[str, object]:
    """{"line": 1, "id": ..., "label": ...}; for a malformed line {"line": 1, "problem": ...}."""
    identity = (record.values or {}).get("id")
    name = {} if identity is None else {"id": identity}
    values = prediction._asdict() if prediction else {"problem": record.problem}
    return {"line": record.line, **name, **values}


def to_row(record: InputRecord, prediction: Any) -> dict[str, object]:
    """The columns of a row with all fields of its prediction, but not its words again."""
    if record.values is None:
        return to_json_record(record, prediction)
    fields = prediction._asdict() if prediction else {"problem": record.problem}
    fields.pop("words", None)
    named = {rename(name, record.values): value for name, value in fields.items()}
    return {**record.values, **named}


def to_cells(
    record: InputRecord, prediction: Any, names: Sequence[str], columns: Sequence[str]
) -> list[str]:
    """The columns `names` of a row, and the `columns` of its prediction, as text.

    Words have spaces between them, a share has four decimals.
    """
    cells = []
    for value in map((record.values or {}).get, names):
        text = value if isinstance(value, str) else json_files.dumps(value, default=str)
        cells.append("" if value is None else text)
    for name in columns:
        value = getattr(prediction, name) if prediction else ""
        if isinstance(value, float):
            value = f"{value:.4f}" if name == "probability" else f"{value:.6g}"
        cells.append(" ".join(value) if isinstance(value, list) else to_single_line(str(value)))
    return cells


def to_table(rows: Sequence[Mapping[str, object]]) -> Any:
    """The rows as a table of Arrow."""
    names = dict.fromkeys(name for row in rows for name in row)
    with one_type_in_columns():
        return import_pyarrow().table({name: [row.get(name) for row in rows] for name in names})


@contextmanager
def one_type_in_columns() -> Iterator[None]:
    """Turn errors about the types of values in a column into one line."""
    try:
        yield
    except import_pyarrow().ArrowException as error:
        raise ToolkitError(
            f"the values of a column must have one type to be written, but have several: "
            f"{' '.join(str(error).split())} Choose --output-format jsonl."
        ) from error


def write_tables(kind: str, path: str, tables: Sequence[Any], features: bytes) -> None:
    """Write a Parquet or Arrow file, or a folder as `save_to_disk` of Hugging Face does."""
    arrow, buffer = import_pyarrow(), import_pyarrow().BufferOutputStream()
    with one_type_in_columns():
        table = arrow.concat_tables(tables or [arrow.table({})], promote_options="permissive")
    table = table.replace_schema_metadata({FEATURES: features})
    if kind == "parquet":
        import_pyarrow("parquet").write_table(table, buffer)
    else:
        with import_pyarrow("ipc").new_stream(buffer, table.schema) as stream:
            stream.write_table(table)
    content = buffer.getvalue().to_pybytes()
    if kind != "dataset":
        write_output(path, content)
        return
    state: JsonObject = dict.fromkeys(("_format_columns", "_format_type", "_split"))
    state |= {"_format_kwargs": {}, "_output_all_columns": False, "_fingerprint": "0"}
    state |= {"_data_files": [{"filename": DATA_FILE}]}
    with atomic_dir(Path(path), replace=False) as folder:
        (folder / DATA_FILE).write_bytes(content)
        write_json(folder / "state.json", state)
        write_json(folder / "dataset_info.json", {})


def format_conllu(record: InputRecord, prediction: Any, options: ConlluOptions) -> str:
    """The sentence with the predicted tags in their column; a malformed one is unchanged."""
    assert record.sentence is not None, "the input is CoNLL-U"
    tags = prediction.tags if prediction else record.sentence.tags
    return replace_sentence_tags(record.sentence, tags, options)

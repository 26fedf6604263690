"""Records of files: JSON lines, CSV, TSV, Parquet and Arrow.

A kind of file is a function in `READERS`, from a file or a chunk of one to its records.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError, join_first
from toolkit.common.json_files import JSON_TYPES, JsonError, is_json_object, parse
from toolkit.data.text_files import (
    FileChunk,
    LineChunk,
    TextError,
    count_lines_before,
    import_pyarrow,
    is_compressed,
    read_lines,
    split_lines,
    strip_compression_suffix,
    whole_file,
)

MAX_ROW_BYTES = 1 << 30
"""A row may hold a whole book; --max-line-bytes limits the lines of its text."""
BATCH_BYTES, BATCH_ROWS = 1 << 20, 1024
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
FEATURES = b"huggingface"
CONVERT = "Convert a list of rows with jq -c '.[]' rows.json > rows.jsonl."
BLANK = "expected JSON, but the line is blank. Remove it."


class LineStream(NamedTuple):
    """Lines that arrive one by one, such as those of standard input."""

    path: Path
    """Its name in messages."""
    lines: Iterable[bytes]


class Record(NamedTuple):
    """A row of a file: a mapping from names to values, a list of cells, or a JSON value."""

    values: Any
    source: FileChunk | LineStream
    number: int
    """Its line or row in the source, counted from 0."""
    problem: str = ""
    """Why it is malformed; empty if it is not."""

    @property
    def file(self) -> Path:
        """The file as messages name it."""
        return self.source.path

    @property
    def line(self) -> int:
        """Its first line in the file, or its row in Parquet and Arrow, counted from 1."""
        chunk = self.source if isinstance(self.source, FileChunk) else None
        before = count_lines_before(chunk) if chunk and not has_rows(chunk.path) else 0
        return before + self.number + 1

    def error(self, message: str) -> ToolkitError:
        """A user's mistake in this record."""
        place = f", row {self.line}" if has_rows(self.file) else f":{self.line}"
        return ToolkitError(f"{self.file}{place}: {message}")

    def value(self, field: str) -> Any:
        """The value in a field."""
        if self.problem:
            raise self.error(self.problem)
        if not isinstance(self.values, Mapping):
            raise self.error(
                f"expected a JSON object, found {JSON_TYPES[type(self.values)]}. Write each row as "
                f"an object on a separate line. {CONVERT}"
            )
        if field not in self.values:
            known = list_names([*self.values])
            raise self.error(f"the row has no field {field!r}. Its fields are {known}. Name one.")
        return self.values[field]

    def text(self, field: str) -> str:
        """The string in a field."""
        if isinstance(self.values, dict) and isinstance(text := self.values.get(field), str):
            return text
        text = self.value(field)
        if not isinstance(text, str):
            found = JSON_TYPES.get(type(text), type(text).__name__)
            raise self.error(
                f"the field {field!r} must hold a string, but holds {found}. Correct or remove it."
            )
        return text


def has_rows(path: Path) -> bool:
    """Whether the records of a file have no lines, so that they are numbered from the first."""
    return path.suffix in (".parquet", ".arrow")


def list_names(names: Sequence[str]) -> str:
    """Some names, quoted."""
    return join_first([repr(name[:40]) for name in names], 20)


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, of the kind that its ending names.

    A malformed one raises a ToolkitError with the file, the line and what is wrong.
    """
    for record in read_rows(path):
        if record.problem:
            raise record.error(record.problem)
        yield record


def read_rows(path: Path) -> Iterator[Record]:
    """The records of a file of rows, with their problems."""
    return READERS[find_suffix(path)](whole_file(path))


def read_text_lines(source: FileChunk | LineStream) -> Iterator[Record]:
    """The lines as texts; in a stream, only the lines that are not UTF-8 have a problem."""
    if isinstance(source, LineStream):
        for number, line in enumerate(source.lines):
            text, problem = decode_line(number + 1, line)
            problem = problem and f"the line is {problem}. Convert it to UTF-8."
            yield Record(text, source, number, problem)
        return
    limit, remedy = source.max_row_bytes, "Shorten it, or raise --max-line-bytes."
    if not limit:
        limit, remedy = MAX_ROW_BYTES, "Divide it into several rows."
    for lines in read_lines(source, limit, strip=False, remedy=remedy):
        for number, text in zip(lines.numbers, lines.lines, strict=True):
            yield Record(text, source, number)


def decode_line(number: int, line: bytes) -> tuple[str, str]:
    """The text of a line without its line end, and an error message, empty if it is valid."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n"), ""
    except UnicodeDecodeError as error:
        text = line.decode("utf-8", errors="replace").rstrip("\r\n")
        return text, f"not UTF-8 at byte {error.start + 1}"


def read_json_lines(source: FileChunk | LineStream) -> Iterator[Record]:
    """A JSON value in each line; blank lines are skipped, but not amid the lines of a stream."""
    records = map(parse_json, read_text_lines(source))
    if isinstance(source, LineStream):
        return drop_blank_end(records, lambda record: record.problem == BLANK)
    return (record for record in records if record.problem != BLANK)


def parse_json(line: Record) -> Record:
    """The value in a line."""
    text, value = line.values.strip(), None
    problem = line.problem or ("" if text else BLANK)
    if not problem:
        try:
            value = parse(text)
        except JsonError as error:
            problem = f"expected JSON: {error}. Correct the line."
            if line.number == 0 and (text == "{" or text.startswith("[")):
                problem = f"expected a JSON value in each line, found one over several. {CONVERT}"
    return Record(value, line.source, line.number, problem)


def drop_blank_end(records: Iterable[Record], blank: Callable[[Record], bool]) -> Iterator[Record]:
    """The records without blank ones at the end."""
    waiting: list[Record] = []
    for record in records:
        waiting.append(record)
        if not blank(record):
            yield from waiting
            waiting = []


def read_tab_cells(source: FileChunk | LineStream) -> Iterator[Record]:
    """The cells of each line, which tabs separate; there are no quotes, as in GLUE."""
    for line in read_text_lines(source):
        cells = line.values.removesuffix("\r").split("\t")
        yield Record(cells, source, line.number, line.problem)


def read_csv_cells(source: FileChunk | LineStream) -> Iterator[Record]:
    """The cells of each row, with quotes as written by spreadsheets and pandas."""
    csv.field_size_limit(MAX_ROW_BYTES)
    last = Record("", source, 0)

    def lines() -> Iterator[str]:
        nonlocal last
        for last in read_text_lines(source):
            yield last.values + "\n"

    rows, number = csv.reader(lines(), strict=True), 0
    try:
        for cells in rows:
            yield Record(cells or [""], source, number, last.problem)
            number = rows.line_num
    except csv.Error as error:
        raise Record("", source, number).error(
            f"the row that starts here is malformed: {str(error).partition(' - ')[0]}. Correct its "
            f'quotes: inside of quotes, they are doubled, as in "a ""b"" c".'
        ) from error


def name_cells(records: Iterator[Record]) -> Iterator[Record]:
    """The rows of a table as mappings; its first row has the names of the columns."""
    for header in records:
        if header.problem:
            raise header.error(header.problem)
        names = [name.strip() for name in header.values]
        duplicates = {name for name in names if names.count(name) > 1}
        rows = drop_blank_end(records, lambda it: len(it.values) == 1 and not it.values[0].strip())
        for record in rows:
            values, problem = None, record.problem
            if not problem and len(record.values) != len(names):
                problem = (
                    f"a row must have {len(names)} columns, as the first line, but has "
                    f"{len(record.values)}. Correct the row."
                )
            if not problem:
                cells = zip(names, record.values, strict=True)
                values = {name: cell for name, cell in cells if name not in duplicates}
            yield Record(values, record.source, record.number, problem)


def read_tsv(source: FileChunk | LineStream) -> Iterator[Record]:
    """The rows of a table with tabs."""
    return name_cells(read_tab_cells(source))


def read_csv(source: FileChunk | LineStream) -> Iterator[Record]:
    """The rows of a table with commas."""
    return name_cells(read_csv_cells(source))


def read_parquet(source: FileChunk) -> Iterator[Record]:
    """The rows of a Parquet file; a row group belongs to the chunk in which its share begins."""
    with open_arrow(source.path) as file:
        check_column(source, file.schema_arrow.names)
        starts = group_starts(file, source.path.stat().st_size)
        groups = [i for i, start in enumerate(starts) if source.start <= start < source.end]
        sizes = [file.metadata.row_group(i).num_rows for i in range(len(starts))]
        first = sum(sizes[: groups[0]]) if groups else 0
        columns = [source.field] if source.field else None
        for batch in file.iter_batches(
            BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False
        ):
            yield from to_records(batch, source, first)
            first += len(batch)


def read_arrow(source: FileChunk) -> Iterator[Record]:
    """Arrow's stream format, as Hugging Face datasets saves, and its file format (Feather)."""
    with open_arrow(source.path) as file:
        check_column(source, file.schema.names)
        is_stream = not hasattr(file, "num_record_batches")
        batches = file if is_stream else map(file.get_batch, range(file.num_record_batches))
        first = 0
        for batch in batches:
            selected = batch.select([source.field]) if source.field else batch
            yield from to_records(selected, source, first)
            first += len(batch)


@contextmanager
def open_arrow(path: Path) -> Iterator[Any]:
    """A Parquet or Arrow file; faults in it while it is open are errors that name it."""
    if is_compressed(path):
        raise ToolkitError(f"{path} must not be compressed as a whole. Decompress it.")
    arrow = import_pyarrow()
    try:
        with open_reader(path) as file:
            yield file
    except ToolkitError:
        raise
    except (arrow.ArrowException, OSError, EOFError, ValueError, OverflowError) as error:
        message = " ".join(str(error).split())
        raise ToolkitError(f"{path} is truncated or damaged: {message} Copy it again.") from error


def read_features(path: Path) -> bytes:
    """The types of the columns in JSON, as Hugging Face stores them; {} if there are none."""
    if not has_rows(path):
        return b"{}"
    with open_arrow(path) as file:
        schema = file.schema_arrow if path.suffix == ".parquet" else file.schema
        found: bytes = (schema.metadata or {}).get(FEATURES, b"{}")
    return found


def open_reader(path: Path) -> Any:
    """pyarrow's reader, without a memory map: a file that is cut off later is an error."""
    if path.suffix == ".parquet":
        return import_pyarrow("parquet").ParquetFile(path, page_checksum_verification=True)
    file, ipc = import_pyarrow().OSFile(str(path)), import_pyarrow("ipc")
    if file.read(6) == b"ARROW1":
        return ipc.open_file(file)
    file.seek(max(0, file.size() - len(END_OF_STREAM)))
    if file.read() != END_OF_STREAM:
        raise EOFError("the end of the stream is missing.")
    file.seek(0)
    return ipc.open_stream(file)


def check_column(chunk: FileChunk, names: Sequence[str]) -> None:
    """The rows must have the chunk's field once."""
    if chunk.field and names.count(chunk.field) != 1:
        problem = "two columns" if chunk.field in names else "no column"
        raise ToolkitError(
            f"{chunk.path} has {problem} {chunk.field!r}. Name one of {list_names(names)}."
        )


def to_records(batch: Any, chunk: FileChunk, first: int) -> Iterator[Record]:
    """The rows of a batch, numbered from `first`. Wrong offsets would read other memory."""
    try:
        batch.validate(full=True)
    except import_pyarrow().ArrowInvalid as error:
        if "Invalid UTF8" not in str(error):
            raise
        if len(batch) == 1:
            message = "expected UTF-8, but the text has other bytes. Correct the row."
            raise Record(None, chunk, first).error(message) from error
        for number in range(len(batch)):  # up to the malformed row
            yield from to_records(batch.slice(number, 1), chunk, first + number)
    for number, row in enumerate(batch.to_pylist(), first):
        yield Record(row, chunk, number)


def group_starts(file: Any, size: int) -> list[int]:
    """The share of a file before each row group, in bytes; pyarrow aborts at damaged offsets."""
    count = file.metadata.num_row_groups if file.metadata.num_columns else 0
    rows = (max(0, file.metadata.row_group(i).num_rows) for i in range(count))
    *before, total = accumulate(rows, initial=0)
    return [start * size // max(1, total) for start in before]


READERS: dict[str, Callable[[FileChunk], Iterator[Record]]] = {
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json_lines,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".arrow": read_arrow,
}
"""Ending of a kind of file -> its reader."""


def row_suffix(path: Path) -> str:
    """.jsonl of a.jsonl.gz."""
    return Path(strip_compression_suffix(path.name)).suffix


def find_suffix(path: Path) -> str:
    """The kind of a file of rows; a file without an ending, such as a pipe, has JSON lines."""
    suffix = row_suffix(path) or ".jsonl"
    if suffix not in READERS:
        raise ToolkitError(
            f"a file of rows must end in one of {', '.join(READERS)}, but {path} does not. Rename "
            f"it. Plain text is read without --text-field and --format rows."
        )
    return suffix


def begins_with_json(path: Path) -> bool:
    """Whether the first line is a JSON object: standard input and pipes have no ending."""
    first = next(read_text_lines(whole_file(path)), None)
    return first is not None and is_json_object(first.values)


def find_cut(path: Path, near: int) -> int:
    """The first byte at or after `near` where a file of rows can be cut, or its size."""
    size = path.stat().st_size
    if path.suffix == ".parquet":
        with open_arrow(path) as file:
            return min((start for start in group_starts(file, size) if start >= near), default=size)
    if is_compressed(path) or READERS[find_suffix(path)] is not read_json_lines:
        return size
    with path.open("rb") as lines:
        lines.seek(near)
        lines.readline()
        return lines.tell()


def read_row_lines(chunk: FileChunk, max_line_bytes: int) -> Iterator[LineChunk]:
    """The lines of the texts in the chunk's field, stripped; those of a row have its number."""
    lines, numbers, size = list[str](), list[int](), 0
    for record in READERS[find_suffix(chunk.path)](chunk):
        text = record.text(chunk.field)
        if "\0" in text:
            raise record.error("found a NUL character in the text. Remove it.")
        try:
            data = text.encode()
            is_line = "\n" not in text and len(data) <= max_line_bytes
            new = [text.strip()] if is_line else split_lines(data, max_line_bytes)
        except UnicodeEncodeError as error:
            raise record.error(
                f"found half of a surrogate pair, \\u{ord(text[error.start]):04x}, in the text. "
                f"Remove it."
            ) from error
        except TextError as error:
            raise record.error(str(error)) from error
        lines += new
        numbers += [record.number] * len(new)
        size += len(text)
        if size > BATCH_BYTES:
            yield LineChunk(lines, numbers)
            lines, numbers, size = [], [], 0
    yield LineChunk(lines, numbers)


FOLDER_SUFFIXES = tuple(suffix for suffix in READERS if suffix != ".json")
"""Endings of the files that a folder stands for. Datasets describe themselves in .json files."""

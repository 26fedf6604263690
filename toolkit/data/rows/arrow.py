"""Parquet files and Arrow files, which Hugging Face datasets save."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from toolkit.common.errors import ToolkitError
from toolkit.data.arrow_library import import_pyarrow
from toolkit.data.rows.reader import RowBatch, RowError, RowReader, check_field
from toolkit.data.text_files import FileChunk, is_compressed

BATCH_ROWS = 1024
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


class ArrowReader(RowReader):
    """Base class of readers through pyarrow; rows are numbered from the first of the file."""

    def fields(self, path: Path) -> Sequence[str]:
        with self.open(path) as file:
            return [column.name for column in _schema(file) if is_text(column.type)]

    def read(self, chunk: FileChunk) -> Iterator[RowBatch]:
        with self.open(chunk.path) as file:
            schema = _schema(file)
            check_field(chunk.path, chunk.field, schema.names)
            kind = schema.field(chunk.field).type
            if not is_text(kind):
                raise ToolkitError(
                    f"{chunk.path}: column {chunk.field!r} must hold strings, but holds {kind}. "
                    f"Name another with --text-field."
                )
            for first, column, fraction in self.batches(file, chunk):
                texts = to_texts(column, chunk.field, first)
                numbers = range(first, first + len(texts))
                yield RowBatch(texts, numbers, int(fraction * chunk.size))

    def raise_in_row(self, chunk: FileChunk, number: int, message: str) -> NoReturn:
        raise ToolkitError(f"{chunk.path}, row {number + 1}: {message}")

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        """The file; faults in it while it is open are errors that name it."""
        if is_compressed(path):
            raise ToolkitError(f"{path} must not be compressed as a whole. Decompress it.")
        arrow = import_pyarrow()
        try:
            with self.open_file(path) as file:
                yield file
        except (arrow.ArrowException, OSError, EOFError) as error:
            message = " ".join(str(error).split())
            raise ToolkitError(
                f"{path} is truncated or damaged: {message} Copy it again."
            ) from error

    @abstractmethod
    def open_file(self, path: Path) -> Any:
        """pyarrow's reader of the file, a context manager."""

    @abstractmethod
    def batches(self, file: Any, chunk: FileChunk) -> Iterator[tuple[int, Any, float]]:
        """Batches of the field: first row, values, and the fraction of the chunk read so far."""


class ParquetReader(ArrowReader):
    """A row group belongs to the chunk that its first byte lies in."""

    def open_file(self, path: Path) -> Any:
        return import_pyarrow("parquet").ParquetFile(path)

    def batches(self, file: Any, chunk: FileChunk) -> Iterator[tuple[int, Any, float]]:
        starts = group_starts(file)
        groups = [i for i, start in enumerate(starts) if chunk.start <= start < chunk.end]
        sizes = [file.metadata.row_group(i).num_rows for i in range(len(starts))]
        first = sum(sizes[: groups[0]]) if groups else 0
        total, done = sum(sizes[i] for i in groups), 0
        options = {"columns": [chunk.field], "use_threads": False}
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, **options):
            first, done = first + len(batch), done + len(batch)
            yield first - len(batch), batch.column(0), done / total

    def find_cut(self, path: Path, near: int) -> int:
        with self.open(path) as file:
            size = super().find_cut(path, near)
            return min((start for start in group_starts(file) if start >= near), default=size)


class IpcReader(ArrowReader):
    """Arrow's stream format, as Hugging Face datasets saves, and its file format (Feather)."""

    def open_file(self, path: Path) -> Any:
        arrow = import_pyarrow()
        with path.open("rb") as file:
            if file.read(6) == b"ARROW1":
                return import_pyarrow("ipc").open_file(arrow.memory_map(str(path)))
            file.seek(-min(len(END_OF_STREAM), path.stat().st_size), 2)
            if file.read() != END_OF_STREAM:
                raise EOFError("the end of the stream is missing.")
        return import_pyarrow("ipc").open_stream(arrow.memory_map(str(path)))

    def batches(self, file: Any, chunk: FileChunk) -> Iterator[tuple[int, Any, float]]:
        is_stream = not hasattr(file, "num_record_batches")
        batches = file if is_stream else map(file.get_batch, range(file.num_record_batches))
        first = 0
        for batch in batches:
            yield first, batch.column(chunk.field), 0.0
            first += len(batch)


def group_starts(file: Any) -> list[int]:
    """The first byte of each row group of a Parquet file."""
    starts = []
    for number in range(file.metadata.num_row_groups):
        column = file.metadata.row_group(number).column(0)
        pages = (column.dictionary_page_offset, column.data_page_offset)
        starts.append(min(offset for offset in pages if offset))
    return starts


def is_text(kind: Any) -> bool:
    """Whether a type of Arrow is a string, or categories that are strings."""
    types = import_pyarrow("types")
    if types.is_dictionary(kind):
        kind = kind.value_type
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def to_texts(column: Any, field: str, first: int) -> list[str]:
    """The strings of a column, none of which may be null."""
    try:
        texts: list[str] = column.to_pylist()
    except UnicodeDecodeError as error:
        number = next(i for i, it in enumerate(column) if not _is_utf8(it))
        raise RowError(
            first + number, f"expected UTF-8, but {error.reason}. Correct the row."
        ) from error
    if column.null_count:
        raise RowError(
            first + texts.index(None),  # type: ignore[arg-type]
            f"the field {field!r} must hold a string, but holds null. Correct the row, or remove "
            f"it.",
        )
    return texts


def _is_utf8(value: Any) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    return True


def _schema(file: Any) -> Any:
    return getattr(file, "schema_arrow", None) or file.schema

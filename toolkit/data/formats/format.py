"""Base class of data formats, the interface that toolkit-preprocess calls, and its report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from toolkit.common.arrays import AnyArray, BoolArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.declared import Options
from toolkit.data.preprocessing.choose_tokenizer import choose_tokenizer_for_texts
from toolkit.data.preprocessing.input_files import FileNames, list_benchmark_files
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.records import Record
from toolkit.data.storage.column_files import ColumnType, ColumnWriter
from toolkit.data.storage.meta import select_counts
from toolkit.data.text_files import list_files
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.console import Output
from toolkit.reporting.tables import Table

PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
Content = TypeVar("Content")
Row = TypeVar("Row")
AnyTokenizer = TypeVar("AnyTokenizer", bound=Tokenizer)


@dataclass(frozen=True)
class Job(Generic[AnyTokenizer]):
    """Tokenizer, output folder and worker processes, for encoding a split."""

    tokenizer: AnyTokenizer
    folder: Path
    """The folder being written, from which worker processes load the tokenizer."""
    pool: WorkerPool


class Block(NamedTuple):
    """Consecutive items of a split, encoded."""

    columns: Mapping[str, tuple[AnyArray, IntArray]]
    """Column -> the values of all items back to back, and the number of values of each item."""
    starts_document: BoolArray
    counts: Mapping[str, int] = {}
    """Counts to sum over the split, for meta.json and the report."""
    split: str = ""
    """The split, if it is held out of another one."""


@dataclass(frozen=True, kw_only=True)
class MalformedOptions(Options, section="format"):
    """Options of formats whose items may be malformed."""

    on_malformed: Literal["error", "skip"] = "error"
    """How to handle a row with a wrong number of columns or an invalid label, and a question that
    is incomplete or whose answer is not at its offset. error: stop and name its line. skip: leave
    it out, report and count it; not in data to be submitted."""


class SplitReport(NamedTuple):
    """Report of toolkit-preprocess on one split."""

    record: JsonObject
    row: Mapping[str, int | str]
    """Head of the printed table -> the split's cell. All splits have the same heads."""
    total: int
    """Number of the format's `unit` in the split."""
    notes: Sequence[str] = ()
    """Lines to print after the table."""
    events: Sequence[tuple[str, JsonObject]] = ()
    """Names and values of further JSON records, such as rows that were left out."""


class Format(ABC, Generic[Content, AnyTokenizer]):
    """Reads the files of all splits, chooses a tokenizer, and encodes items as columns.

    `Content` is what the format keeps of a split between reading and encoding. A subclass defines
    `kind`, `columns`, `read_split` or `read`, `encode` or `write`, and `texts` or
    `choose_tokenizer`.
    """

    kind: ClassVar[str]
    """Kind of the data folder, stored in meta.json and checked by the reader of its splits."""
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    """Endings of the files that a folder stands for; .gz, .xz or .zst may follow."""
    published: FileNames | None = None
    """Split -> what its file may be called in the folder of a benchmark, if the data is one."""
    recursive: ClassVar[bool] = False
    """Whether a folder also stands for files in its subfolders."""
    unit: ClassVar[str] = "items"
    """What the last line of the report counts."""
    item_columns: Mapping[str, str] = MappingProxyType({})
    """Part of an item -> its column, if the user named it; kept with the tokenizer."""
    options: Options

    def __init__(self, options: Options, config: PreprocessConfig) -> None:
        self.options, self.config = options, config
        self.remarks: list[str] = []
        """Lines to print after the notes of all splits."""
        self.check()

    @property
    def name(self) -> str:
        """The registered name."""
        return self.config.format.name

    def check(self) -> None:
        """Raise for options that cannot be combined."""

    def read(self) -> dict[str, Content]:
        """Split -> its content, checked. Nothing has been written yet."""
        return {split: self.read_split(split, files) for split, files in self.list_files().items()}

    def list_files(self) -> Mapping[str, list[Path]]:
        """Split -> its files."""
        if self.published:
            return list_benchmark_files(self.config.inputs, self.published)
        return {
            split: list_files(f"{split}pref", names, self.suffixes, recursive=self.recursive)
            for split, names in self.config.inputs.items()
        }

    def read_split(self, split: str, files: Sequence[Path]) -> Content:
        """The content of the files of one split, checked."""
        raise NotImplementedError

    def max_workers(self, splits: Mapping[str, Content]) -> int:
        """Maximum number of processes that can work at the same time."""
        return 1

    def texts(self, content: Content) -> Iterable[str]:
        """The texts of a split, to train a tokenizer on."""
        raise NotImplementedError

    def choose_tokenizer(
        self, splits: Mapping[str, Content], folder: Path, pool: WorkerPool
    ) -> Tokenizer:
        """The tokenizer that an option names, or one trained on the training texts."""
        texts = self.texts(splits["train"]) if "train" in splits else ()
        return choose_tokenizer_for_texts(self.config, texts, folder, pool)

    def write_files(self, splits: Mapping[str, Content], job: Job[AnyTokenizer]) -> Sequence[str]:
        """Write further files into the folder; returns their names."""
        return ()

    @abstractmethod
    def columns(self, split: str, tokenizer: AnyTokenizer) -> Mapping[str, ColumnType]:
        """Column -> dtype, or the vocabulary that its values are ids of."""

    def encode(self, split: str, content: Content, job: Job[AnyTokenizer]) -> Iterator[Block]:
        """The items of a split in blocks."""
        raise NotImplementedError

    def write(self, splits: Mapping[str, Content], job: Job[AnyTokenizer]) -> dict[str, JsonObject]:
        """Write all columns; returns split -> its entry in meta.json."""
        writers = dict[str, dict[str, ColumnWriter]]()
        counts = defaultdict[str, Counter[str]](Counter)
        for own, content in splits.items():
            for block in self.encode(own, content, job):
                if (split := block.split or own) not in writers:
                    writers[split] = {
                        name: ColumnWriter(job.folder / f"{split}.{name}", kind)
                        for name, kind in self.columns(split, job.tokenizer).items()
                    }
                for name, column in block.columns.items():
                    writers[split][name].add(*column, block.starts_document)
                counts[split].update(block.counts)
        self.check_written(
            [*splits], {s for s, its in writers.items() if any(it.items for it in its.values())}
        )
        return {
            split: {
                **counts[split],
                **(self.split_metadata(splits[split]) if split in splits else {}),
                "columns": {name: writer.finish() for name, writer in its.items()},
            }
            for split, its in writers.items()
        }

    def check_written(
        self, read: Sequence[str], filled: Container[str], nothing: str = "nothing to write"
    ) -> None:
        """Raise unless all splits that were read are filled with items; `nothing` says why not."""
        for split in read:
            if split not in filled:
                files = self.config.inputs.get(split) or self.config.trainpref
                raise ToolkitError(f"{split}pref {files} has {nothing}. Give other files.")

    def split_metadata(self, content: Content) -> JsonObject:
        """Further entries of a split in meta.json."""
        return {}

    def settings(self, tokenizer: AnyTokenizer) -> JsonObject:
        """How the folder was made, for meta.json."""
        return {"tokenizer": tokenizer.kind}

    def describe(self, tokenizer: AnyTokenizer) -> tuple[str, JsonObject]:
        """The title of the printed table, and values of the last JSON record."""
        symbols = len(tokenizer.vocabulary)
        return f"{symbols:,} symbols", {"symbols": symbols}

    def report_split(self, split: str, content: Content | None, entry: JsonObject) -> SplitReport:
        """The report of a split from its entry in meta.json; without content if it was held out."""
        sizes = count_column(next(iter(entry["columns"].values())))
        row = {name: sizes[name] for name in ("items", "tokens")}
        return SplitReport({**sizes, **select_counts(entry)}, row, sizes["items"])


MAX_LISTED = 5
"""Problems of one kind that are printed for each split; the JSON records list all."""
MAX_QUOTED = 40
"""Characters of an invalid value that an error quotes."""


class Problem(NamedTuple):
    """A malformed row, question or file."""

    path: Path
    where: str
    """Its line, or its place among the questions."""
    what: str
    kept: bool = False
    """Whether a question stays, because it is only used for evaluation."""
    lost: int = 1
    """Number of rows or questions that are left out because of it, as far as known."""

    def __str__(self) -> str:
        return f"{self.path}:{self.where}: {self.what}"

    def row_event(self) -> tuple[str, JsonObject]:
        """Name and values of the JSON record of a malformed row."""
        return "left_out", {"file": str(self.path), "line": int(self.where), "what": self.what}


def parse_records(
    numbered: Iterable[tuple[int, Record]],
    parse: Callable[[int, Record], Row],
    problems: list[Problem],
) -> Iterator[Row]:
    """Numbered records, parsed. Malformed ones, and those for which `parse` raises ValueError,
    become problems; its ToolkitErrors are about the whole file.
    """
    for number, record in numbered:
        try:
            if record.problem:
                raise ValueError(record.problem.removesuffix(" Correct the row."))
            yield parse(number, record)
        except ToolkitError:
            raise
        except ValueError as error:
            problems.append(Problem(record.file, str(record.line), str(error)))


def list_first(split: str, handled: str, problems: Sequence[object]) -> Iterator[str]:
    """The first problems as lines, and the number of the others."""
    lines = list(dict.fromkeys(map(str, problems)))
    yield from (f"{handled} {line}" for line in lines[:MAX_LISTED])
    if len(lines) > MAX_LISTED:
        yield f"and {len(lines) - MAX_LISTED:,} more of {split} {handled.rstrip(':')}"


def check_malformed(problems: Sequence[Problem], on_malformed: str, *, labeled: bool) -> None:
    """Raise for malformed rows or questions of a file, unless they may be left out. Without labels
    they may not, because predictions must be complete.
    """
    dropped = [problem for problem in problems if not problem.kept]
    found: Sequence[Problem] = dropped
    advice = "Correct it."
    if labeled or not dropped:
        found = problems if on_malformed == "error" else []
        advice = "Correct it, or give --on-malformed skip."
    if found:
        count = f" The file has {len(found):,} such problems." if len(found) > 1 else ""
        raise ToolkitError(f"{found[0]}{count} {advice}")


def count_column(column: JsonObject) -> dict[str, int]:
    """Sizes of a column, from its entry in meta.json."""
    names = {"documents": "documents", "items": "items", "elements": "tokens"}
    return {name: column[key] for key, name in names.items()}


def print_report(
    source: Format[Content, Tokenizer],
    tokenizer: Tokenizer,
    splits: Mapping[str, SplitReport],
    seconds: float,
    workers: int,
    output: Output,
) -> None:
    """Print the table, with notes and speed; write one JSON record per split and one at the end."""
    console, destdir = output.console, source.config.destdir
    title, facts = source.describe(tokenizer)
    console.print(f"{destdir}: {title}", **PLAIN)
    heads = tuple(next(iter(splits.values())).row)
    rows = [
        [split, *(it if isinstance(it, str) else f"{it:,}" for it in report.row.values())]
        for split, report in splits.items()
    ]
    Table(columns=("split", *heads), rows=rows, right_align=heads).print(console)
    for split, report in splits.items():
        output.write("split", {"split": split, **report.record})
        for event, values in report.events:
            output.write(event, {"split": split, **values})
        for note in report.notes:
            console.print(note, **PLAIN)
    for remark in source.remarks:
        console.print(remark, **PLAIN)
    total = sum(report.total for report in splits.values())
    rate = total / max(seconds, 1e-9)
    console.print(
        f"{total:,} {source.unit} in {seconds:.1f} s with {workers} worker{'s' * (workers > 1)}: "
        f"{rate:,.0f} {source.unit}/s",
        **PLAIN,
    )
    speed = {"seconds": seconds, "workers": workers, f"{source.unit}_per_second": rate}
    output.write("end", {"destdir": destdir, **facts, source.unit: total, **speed})

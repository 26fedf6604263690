"""The interface of a data format: what toolkit-preprocess asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy.typing as npt

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.preprocessing.choose_tokenizer import choose_tokenizer_for_texts
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.storage.split_writer import ColumnType, SplitWriter
from toolkit.data.text_files import list_files
from toolkit.data.tokenizers.tokenizer import Tokenizer

SPLITS = ("train", "valid", "test")
Content = TypeVar("Content")


class Job(NamedTuple):
    """What encoding needs besides the content of a split."""

    tokenizer: Tokenizer
    folder: Path
    """The folder being written, from which worker processes load the tokenizer."""
    pool: WorkerPool


class Block(NamedTuple):
    """Consecutive items of a split, encoded."""

    columns: Mapping[str, tuple[npt.NDArray[Any], IntArray]]
    """Column -> the values of all items back to back, and the number of values of each item."""
    starts_document: BoolArray
    """Whether each item begins a document."""
    counts: Mapping[str, int] = {}
    """IntArray to add up over the split, for meta.json and the report."""


class SplitReport(NamedTuple):
    """What toolkit-preprocess reports of one split."""

    record: Mapping[str, Any]
    """For programs: --json."""
    cells: Sequence[str]
    """For people: the row of the printed table, below the format's `heads`."""
    total: int
    """How many of the format's `unit` it has."""
    notes: Sequence[str] = ()
    """Lines to print below the table."""
    events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """Further records for programs, such as rows left out: name and values."""


class Format(ABC, Generic[Content]):
    """Reads the files of all splits, chooses a tokenizer, and encodes items as columns.

    `Content` is what the format keeps of a split between reading and encoding. A subclass must
    define `kind`, `read_split`, `columns`, `encode`, and `texts` or `choose_tokenizer`. It is
    built from its own options and from those that every format has.
    """

    kind: ClassVar[str]
    """Kind of the data folder, stored in meta.json and checked by the reader of its splits."""
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    """Endings of the files that a folder stands for; .gz and .xz may follow."""
    unit: ClassVar[str] = "items"
    """What the last line of the report counts."""
    heads: ClassVar[tuple[str, ...]] = ("items", "tokens")
    """Heads of the printed table, after the name of the split."""

    def __init__(self, options: Any, config: PreprocessConfig) -> None:
        self.options, self.config = options, config
        self.check()

    @property
    def name(self) -> str:
        """The registered name."""
        return self.config.format.name

    def check(self) -> None:
        """Rules between the format's own options and those that every format has."""
        counts_words = not self.config.vocabulary_option and self.config.tokenizer_kind == "words"
        check_min_count(self.config, counts_words)

    def read(self) -> dict[str, Content]:
        """Split -> its content, checked. Nothing has been written yet."""
        given = {split: getattr(self.config, f"{split}pref") for split in SPLITS}
        return {
            split: self.read_split(split, list_files(f"{split}pref", names, self.suffixes))
            for split, names in given.items()
            if names
        }

    @abstractmethod
    def read_split(self, split: str, files: Sequence[Path]) -> Content:
        """The content of the files of one split."""

    def max_workers(self, splits: Mapping[str, Content]) -> int:
        """Maximum number of processes that there is work for."""
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

    def write_files(self, splits: Mapping[str, Content], job: Job) -> Sequence[str]:
        """Write further files into the folder; returns their names."""
        return ()

    @abstractmethod
    def columns(self, split: str, tokenizer: Tokenizer) -> Mapping[str, ColumnType]:
        """Column -> dtype, or the vocabulary that its values are ids of."""

    @abstractmethod
    def encode(self, split: str, content: Content, job: Job) -> Iterator[Block]:
        """The items of a split, some at a time."""

    def write(self, splits: Mapping[str, Content], job: Job) -> dict[str, dict[str, Any]]:
        """Write all columns; returns split -> its entry in meta.json."""
        return {split: self.write_split(split, content, job) for split, content in splits.items()}

    def write_split(self, split: str, content: Content, job: Job) -> dict[str, Any]:
        writer = SplitWriter(job.folder, split, self.columns(split, job.tokenizer))
        counts = Counter[str]()
        for block in self.encode(split, content, job):
            writer.add(block.columns, block.starts_document)
            counts.update(block.counts)
        if not writer.items:
            files = getattr(self.config, f"{split}pref")
            raise ToolkitError(f"{split}pref {files} has no items to write. Give other files.")
        return {**counts, **self.split_metadata(content), "columns": writer.finish()}

    def split_metadata(self, content: Content) -> dict[str, Any]:
        """Further facts about a split, for meta.json."""
        return {}

    def settings(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """How the folder was made, for meta.json."""
        return {"tokenizer": tokenizer.kind}

    def title(self, tokenizer: Tokenizer) -> str:
        """The folder in a few words, for people."""
        return f"{len(tokenizer.vocabulary):,} symbols"

    def summary(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """The folder in a few numbers, for programs."""
        return {"symbols": len(tokenizer.vocabulary)}

    def remarks(self) -> Sequence[str]:
        """Further lines to print below the table."""
        return ()

    def report_split(
        self, split: str, content: Content | None, entry: Mapping[str, Any]
    ) -> SplitReport:
        """What to report of a split; `entry` is its entry in meta.json.

        A split that was held out of another has no content.
        """
        sizes = count_column(next(iter(entry["columns"].values())))
        numbers = {name: value for name, value in entry.items() if isinstance(value, int)}
        cells = [f"{sizes[name]:,}" for name in ("items", "tokens")]
        return SplitReport({**sizes, **numbers}, cells, sizes["items"])


def count_column(column: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of a column over its parts, from its entry in meta.json."""
    names = {"documents": "documents", "items": "items", "elements": "tokens"}
    return {name: sum(part[key] for part in column["parts"]) for key, name in names.items()}


def check_min_count(config: PreprocessConfig, counts_words: bool) -> None:
    """A minimum count says nothing unless words are counted for a vocabulary."""
    if config.min_count > 1 and not counts_words:
        raise ToolkitError(
            "--min-count requires a vocabulary of words to be counted. Give --tokenizer words."
        )

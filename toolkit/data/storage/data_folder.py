"""Data folders of any format, several with one vocabulary read as one; the corpora of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import sha256
from toolkit.config.sections import DataConfig
from toolkit.data.storage.column_files import Column, ColumnPart, FolderSource
from toolkit.data.storage.fairseq import FairseqFolder, is_fairseq_folder
from toolkit.data.storage.meta import ToolkitFolder
from toolkit.data.tokenizers.tokenizer import LanguagePair, Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

VECTORS_FILE = "vectors.npy"


@dataclass(frozen=True)
class Split:
    """The columns of one split, with equal item counts."""

    name: str
    columns: Mapping[str, Column]

    def column(self, name: str) -> Column:
        """The column of this name; raises a ToolkitError if there is none."""
        if name not in self.columns:
            raise ToolkitError(
                f"split {self.name!r} has no column {name!r}, only {', '.join(self.columns)}: this "
                f"data is of another kind. Run toolkit-preprocess with the --format of the task."
            )
        return self.columns[name]

    @property
    def items(self) -> int:
        """Number of items."""
        return next(iter(self.columns.values())).items


class DataFolder:
    """The splits of all sources, one after the other. Opening reads no token."""

    def __init__(self, sources: Sequence[FolderSource]) -> None:
        self.sources = list(sources)
        first = self.sources[0]
        self.path, self.kind = first.path, first.kind
        self.name = " ".join(str(source.path) for source in self.sources)
        """The paths of all folders, for messages."""
        self.splits = list(dict.fromkeys(name for it in self.sources for name in it.splits))
        for source in self.sources:
            if source.kind != self.kind:
                raise ToolkitError(
                    f"data folders must agree on their kind, but {source.path} differs from "
                    f"{self.path}. They are {source.kind} and {self.kind}: train on one of them."
                )
            if source.vocabulary_fingerprint != first.vocabulary_fingerprint:
                raise_different(self, source, "their vocabulary")
        parts: dict[str, dict[str, list[ColumnPart]]] = {name: {} for name in self.splits}
        for source in self.sources:
            for split in source.splits:
                for column, found in source.parts(split).items():
                    parts[split].setdefault(column, []).extend(found)
        self._splits = {
            split: Split(split, {name: Column(name, found) for name, found in columns.items()})
            for split, columns in parts.items()
        }

    @classmethod
    def open(cls, *paths: Path | str) -> DataFolder:
        """Check headers, sizes and digests, and that all folders share one vocabulary."""
        return cls([open_folder(Path(path)) for path in paths])

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the data does."""
        digests = [source.digest for source in self.sources]
        return digests[0] if len(digests) == 1 else sha256(" ".join(digests))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the data was encoded with."""
        return self.sources[0].load_tokenizer()

    @cached_property
    def word_vectors(self) -> npt.NDArray[np.float32] | None:
        """A memory-mapped row per symbol, if preprocessing was given word vectors."""
        path = self.path / VECTORS_FILE
        if not path.is_file():
            return None
        try:  # a file of pickled objects is a ValueError
            return np.lib.format.open_memmap(path, mode="r")
        except (OSError, ValueError) as error:
            raise ToolkitError(
                f"{path} must hold a table of floats, but does not: {error}. Run "
                f"toolkit-preprocess again."
            ) from error

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the tokenizer."""
        return self.tokenizer.vocabulary

    def sources_of(self, split: str) -> list[FolderSource]:
        """The sources that have a split."""
        return [source for source in self.sources if split in source.splits]

    def split(self, name: str) -> Split:
        """The split of this name; raises a ToolkitError if there is none."""
        if name not in self._splits:
            more = " or --valid-fraction" * (name == "valid")
            remedy = f" toolkit-preprocess writes it with --{name}pref{more}."
            raise ToolkitError(
                f"no split of {self.path} is called {name!r}. Known: {', '.join(self.splits)}."
                f"{remedy * (name in ('train', 'valid', 'test'))}"
            )
        return self._splits[name]


def open_folder(path: Path, languages: LanguagePair | None = None) -> FolderSource:
    """A folder of toolkit-preprocess, or of fairseq-preprocess with one of several `languages`."""
    return FairseqFolder(path, languages) if is_fairseq_folder(path) else ToolkitFolder(path)


SHARD_SEPARATOR = ":"


class Corpora:
    """`A B` are two corpora read as one; `A:B:C` are the shards of one corpus.

    Epoch e (from 1) reads shard (e - 1) mod n of every corpus, n being its number of shards. All
    folders are opened at once, which reads no token.
    """

    def __init__(self, corpora: Sequence[Sequence[FolderSource]]) -> None:
        self.corpora = [list(shards) for shards in corpora]
        self.all = DataFolder([source for shards in self.corpora for source in shards])
        self.path = self.all.path
        self.cycle = lcm(*map(len, self.corpora))
        """Number of epochs until the shards repeat."""

    @classmethod
    def open(cls, *arguments: str, languages: LanguagePair | None = None) -> Corpora:
        """Check the headers and sizes of every folder, and that all share one vocabulary."""
        paths = [[p for p in argument.split(SHARD_SEPARATOR) if p] for argument in arguments]
        if not paths or not all(paths):
            raise ToolkitError("a data folder is required. Name one or more.")
        return cls([[open_folder(Path(path), languages) for path in shards] for shards in paths])

    @classmethod
    def of_run(cls, config: DataConfig) -> Corpora:
        """The data of a run, which must have the languages that the run names."""
        corpora = cls.open(*config.dirs, languages=config.languages)
        found = corpora.all.tokenizer.language_pair if config.languages else None
        if found != config.languages:
            held = f"translates {'-'.join(found)}" if found else "has no language pair"
            raise ToolkitError(
                f"--source-lang {config.source_lang} and --target-lang {config.target_lang} need "
                f"data in these languages, but {corpora.all.name} {held}. Run toolkit-preprocess "
                f"with these options."
            )
        return corpora

    def for_epoch(self, epoch: int) -> DataFolder:
        """The epoch's shard of every corpus, corpus after corpus."""
        return DataFolder([shards[(epoch - 1) % len(shards)] for shards in self.corpora])

    def prefixes(self, epoch: int) -> list[DataFolder]:
        """The epoch's folders of the first corpus, of the first two, ..., of all but the last."""
        sources = self.for_epoch(epoch).sources
        return [DataFolder(sources[:count]) for count in range(1, len(sources))]

    def check_split(self, split: str) -> None:
        """Raise if a shard lacks the split: its epochs would have no examples."""
        without = [
            str(shard.path)
            for shards in self.corpora
            for shard in shards
            if len(shards) > 1 and split not in shard.splits
        ]
        if without:
            raise ToolkitError(
                f"every shard must have a split {split!r}, but {', '.join(without)} has none. "
                f"Leave it out, or preprocess it again."
            )

    def with_split(self, split: str) -> DataFolder:
        """For evaluation: the first shard of each corpus that has the split."""
        first = [next((it for it in shards if split in it.splits), None) for shards in self.corpora]
        return DataFolder([source for source in first if source]) if any(first) else self.all


AnyTokenizer = TypeVar("AnyTokenizer", bound=Tokenizer)


def check_kind(folder: DataFolder, kind: str, *, task: str, holds: str, options: str) -> None:
    """Raise unless the data is of the kind that the task requires."""
    if folder.kind != kind:
        raise ToolkitError(
            f"task {task} must have a folder of {holds}, but {folder.name} is of kind "
            f"{folder.kind}. Run toolkit-preprocess with {options}."
        )


def tokenizer_of_kind(
    folder: DataFolder,
    kind: type[AnyTokenizer],
    *,
    task: str,
    holds: str,
    shared: str,
    options: str,
) -> AnyTokenizer:
    """The tokenizer of the data, of its kind; else, or if folders differ in `shared`, raise."""
    check_kind(folder, kind.kind, task=task, holds=holds, options=options)
    for source in folder.sources[1:]:
        if source.load_tokenizer().fingerprint != folder.tokenizer.fingerprint:
            raise_different(folder, source, shared)
    assert isinstance(folder.tokenizer, kind), "meta.json has its digest"
    return folder.tokenizer


def raise_different(folder: DataFolder, source: FolderSource, what: str) -> NoReturn:
    """Raise for a source that differs from the first one."""
    raise ToolkitError(
        f"data folders must agree on {what}, but {source.path} differs from {folder.path}. "
        f"Preprocess them alike, one with --tokenizer-from the other."
    )


SPLIT = "items"
"""Name of the only split of raw items."""
EncodedColumns = Mapping[str, tuple[AnyArray, IntArray]]
"""Column -> the values of all items back to back, and the number of values of each item."""


class MemoryFolder(DataFolder):
    """A data folder with one split, stored nowhere."""

    def __init__(
        self, kind: str, tokenizer: Tokenizer, columns: EncodedColumns, split: str = SPLIT
    ) -> None:
        self.path, self.kind, self.sources = Path("raw items"), kind, list[FolderSource]()
        self.tokenizer, self.splits = tokenizer, [split]
        self.name = self.fingerprint = str(self.path)  # read once, so never compared with others
        found = {name: Column(name, [MemoryPart(*it)]) for name, it in columns.items()}
        self._splits = {split: Split(split, found)}


class MemoryPart(ColumnPart):
    """Items back to back in one array, as a single document."""

    def __init__(self, values: AnyArray, lengths: IntArray) -> None:
        self.values, self.dtype = values, values.dtype
        offsets: IntArray = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.index = offsets, np.zeros(1, np.int64)

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        return self.values[indices]


ITEM_TOKENS = 1 << 14
"""Tokens per item: more than any model reads at once, so that every sample is cut to its limit."""
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")


def make_synthetic_text(symbols: int, items: int) -> MemoryFolder:
    """A folder with one split, `train`: one document of long items of the same word."""
    words = [*SPECIAL, *(f"\u2581{number}" for number in range(symbols - len(SPECIAL)))]
    tokenizer = WordLevelTokenizer(Vocabulary(words, pad=0, cls=1, sep=2, mask=3, unk=4))
    tokens = np.broadcast_to(np.int64(len(SPECIAL)), items * ITEM_TOKENS)  # takes no memory
    columns = {"tokens": (tokens, np.full(items, ITEM_TOKENS))}
    return MemoryFolder("text", tokenizer, columns, split="train")

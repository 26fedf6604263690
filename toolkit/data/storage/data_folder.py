"""One data folder, or several with one vocabulary read as one, in any format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import sha256
from toolkit.data.storage.columns import Column, ColumnPart
from toolkit.data.storage.fairseq import FairseqFolder, is_fairseq_folder
from toolkit.data.storage.meta import ToolkitFolder
from toolkit.data.storage.source import FolderSource
from toolkit.data.storage.word_vectors import VECTORS_FILE, open_table
from toolkit.data.tokenizers.tokenizer import LanguagePair, Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary


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
                f"data is of another kind. Run toolkit-preprocess with the --format that the task "
                f"requires."
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
        for source in self.sources:
            pairs = {
                "kind": (source.kind, first.kind),
                "vocabulary": (source.vocabulary_fingerprint, first.vocabulary_fingerprint),
            }
            for what, (value, expected) in pairs.items():
                if value != expected:
                    remedy = "Preprocess one with --tokenizer-from the other."
                    if what == "kind":
                        remedy = f"They are {source.kind} and {first.kind}: train on one of them."
                    raise ToolkitError(
                        f"data folders must agree on their {what}, but {source.path} differs from "
                        f"{self.path}. {remedy}"
                    )
        self._splits = {name: self._open_split(name) for name in self.splits}

    @classmethod
    def open(cls, *paths: Path | str) -> DataFolder:
        """Check headers, sizes and digests, and that all folders share one vocabulary."""
        if not paths:
            raise ToolkitError("a data folder is required. Name one or more.")
        return cls([open_folder(Path(path)) for path in paths])

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the data does."""
        digests = [source.digest for source in self.sources]
        return digests[0] if len(digests) == 1 else sha256(" ".join(digests))

    @property
    def name(self) -> str:
        """The paths of all folders, for messages."""
        return " ".join(str(source.path) for source in self.sources)

    @property
    def splits(self) -> list[str]:
        """Names of all splits."""
        return list(dict.fromkeys(name for source in self.sources for name in source.splits))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the data was encoded with."""
        return self.sources[0].load_tokenizer()

    @cached_property
    def word_vectors(self) -> npt.NDArray[np.float32] | None:
        """A memory-mapped row per symbol, if preprocessing was given word vectors."""
        path = self.path / VECTORS_FILE
        return open_table(path) if path.is_file() else None

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the tokenizer."""
        return self.tokenizer.vocabulary

    def split(self, name: str) -> Split:
        """The split of this name; raises a ToolkitError if there is none."""
        if name not in self._splits:
            made = "--validpref or --valid-fraction" if name == "valid" else f"--{name}pref"
            remedy = (
                f" toolkit-preprocess writes it with {made}."
                if name in ("train", "valid", "test")
                else ""
            )
            raise ToolkitError(
                f"no split of {self.path} is called {name!r}. Known: {', '.join(self.splits)}."
                f"{remedy}"
            )
        return self._splits[name]

    def _open_split(self, name: str) -> Split:
        parts: dict[str, list[ColumnPart]] = {}
        for source in self.sources:
            if name in source.splits:
                for column, column_parts in source.parts(name).items():
                    parts.setdefault(column, []).extend(column_parts)
        return Split(name, {column: Column(column, found) for column, found in parts.items()})


def open_folder(path: Path, languages: LanguagePair | None = None) -> FolderSource:
    """A folder of toolkit-preprocess or of fairseq-preprocess, depending on its files.

    `languages` selects one of several pairs of a fairseq folder, and its direction.
    """
    return FairseqFolder(path, languages) if is_fairseq_folder(path) else ToolkitFolder(path)

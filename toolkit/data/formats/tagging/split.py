"""Words laid out for batches, by their type, with their tags: given ones, or those of a split.

A type is a distinct word. What is known of a word is known of its type: its pieces, its spelling,
whether it is in the vocabulary. All of it is in memory: a million words take some ten megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_text
from toolkit.data.formats.tagging.label_tables import MAX_BYTES, LabelTables
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.storage.columns import Column
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.vocabulary import read_symbols

KIND, TYPES_FILE = "tagging", "types.txt"
COLUMNS = {"types": "<i4", "tags": "<u2", "fields": "<i4", "source": "<u1"}
UNSEEN_TAG = 65535
"""In place of a tag that the training data does not have."""
UNKNOWN_TAG = 65534
"""In place of a tag that is missing in the file."""


class TypePieces(NamedTuple):
    """Ids of all types' pieces back to back, where each type's begin, and how many it has."""

    ids: IntArray
    starts: IntArray
    counts: IntArray


class TaggedWords:
    """Sentences back to back."""

    def __init__(
        self,
        tokenizer: TaggingTokenizer,
        words: Sequence[str],
        *,
        types: IntArray,
        tags: IntArray,
        lengths: IntArray,
    ) -> None:
        self.tokenizer, self.words = tokenizer, words
        """`words` are the types."""
        self.types, self.tags, self.lengths = types, tags, lengths
        """Type and label of each word; -1 is a label that training does not have, -2 one that is
        not known. Words of each sentence."""

    @classmethod
    def from_words(
        cls, tokenizer: TaggingTokenizer, sentences: Sequence[Sequence[str]]
    ) -> TaggedWords:
        """Of sentences whose tags are not known."""
        names: dict[str, int] = {}
        types = [names.setdefault(word, len(names)) for words in sentences for word in words]
        return cls(
            tokenizer,
            list(names),
            types=np.array(types, np.int64),
            tags=np.full(len(types), -2),
            lengths=np.array([len(words) for words in sentences], np.int64),
        )

    @property
    def tables(self) -> LabelTables:
        return self.tokenizer.tables

    @cached_property
    def type_char_ids(self) -> IntArray:
        """Characters of each type, and at the end those of <PAD>."""
        return self.tokenizer.char_ids([*self.words, "<PAD>"])

    @cached_property
    def type_pieces(self) -> TypePieces:
        ids, counts = self.tokenizer.encode_types(self.words)
        return TypePieces(ids, np.cumsum(counts) - counts, counts)

    @cached_property
    def oov(self) -> BoolArray:
        """Whether each word is out of vocabulary."""
        known = self.tables.word_index
        return np.array([word not in known for word in self.words], bool)[self.types]

    @cached_property
    def ambiguous(self) -> BoolArray:
        """Whether each word is known and has several tags in the training part."""
        several = {self.tables.words[place] for place in self.tables.ambiguous}
        return np.array([word in several for word in self.words], bool)[self.types]


class TaggedSplit(TaggedWords):
    """Sentences of a split, over all folders that have it."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        folder.split(split)  # so that an unknown one is told
        types, tags, lengths, names = [], [], [], dict[str, int]()
        tokenizer = load_tokenizer(folder)
        for source in folder.sources:
            if split not in source.splits:
                continue
            parts = source.parts(split)
            column = Column("types", parts["types"])
            own = [names.setdefault(word, len(names)) for word in read_types(source.path)]
            types.append(np.array(own, np.int64)[read_column(column)])
            tags.append(read_column(Column("tags", parts["tags"])))
            lengths += [np.diff(part.offsets) for part in column.parts]
        labels = np.concatenate(tags)
        super().__init__(
            tokenizer,
            list(names),
            types=np.concatenate(types),
            tags=np.select([labels == UNSEEN_TAG, labels == UNKNOWN_TAG], [-1, -2], labels),
            lengths=np.concatenate(lengths).astype(np.int64),
        )


def load_tokenizer(folder: DataFolder) -> TaggingTokenizer:
    if folder.kind != KIND or not isinstance(folder.tokenizer, TaggingTokenizer):
        raise ToolkitError(
            f"task pos_tagging must have a folder of tagged text, but {folder.name} is of kind "
            f"{folder.kind}. Run toolkit-preprocess with --format conllu, ptb or columns."
        )
    for source in folder.sources[1:]:
        other = source.load_tokenizer()
        if other.fingerprint != folder.tokenizer.fingerprint:
            raise ToolkitError(
                f"data folders must agree on their tags and words, but {source.path} differs from "
                f"{folder.path}. Preprocess one with --tokenizer-from the other."
            )
    return folder.tokenizer


def read_types(path: Path) -> Sequence[str]:
    return read_symbols(read_text(path / TYPES_FILE, MAX_BYTES))


def read_column(column: Column) -> IntArray:
    """All values of a column."""
    found = [np.zeros(0, np.int64)]
    for begin, end in zip(column.part_offsets[:-1], column.part_offsets[1:], strict=True):
        if begin < end:
            places = np.arange(begin, end)[None]
            found.append(column.take(places, np.array([begin]), np.array([end]))[0])
    return np.concatenate(found)

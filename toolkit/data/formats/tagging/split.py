"""Tagged words for batches: given words, or those of a split.

A type is a distinct word. Pieces, characters and whether a word is known are stored per type. All
of it is in memory: a million words take about ten megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.common.json_files import JsonObject, read_text
from toolkit.data.formats.folder_kinds import (
    check_label_ids,
    check_same_tokenizer,
    tokenizer_of_kind,
)
from toolkit.data.formats.tagging.label_tables import MAX_BYTES, LabelTables
from toolkit.data.formats.tagging.penn_treebank import first_tag
from toolkit.data.formats.tagging.sentence import TAG_COLUMNS, get_feature
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.storage.columns import Column
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.storage.meta import read_meta
from toolkit.data.tokenizers.vocabulary import read_symbols

KIND, TYPES_FILE = "tagging", "types.txt"
COLUMNS = {"types": "<i4", "tags": "<u2", "fields": "<i4", "source": "<u1"}
UNSEEN_TAG = 65535
"""Stands for a tag that the training data does not have."""
UNKNOWN_TAG = 65534
"""Stands for a tag that is missing in the file."""


class TypePieces(NamedTuple):
    """Piece ids of all types back to back, with the first piece and the number of each type."""

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
        self.tokenizer = tokenizer
        self.words = words
        """The types."""
        self.types, self.tags = types, tags
        """Type and label of each word. -1 is a label that training does not have, -2 an unknown
        label."""
        self.lengths = lengths
        """Words per sentence."""

    @classmethod
    def from_words(
        cls, tokenizer: TaggingTokenizer, sentences: Sequence[Sequence[str]]
    ) -> TaggedWords:
        """Sentences without tags."""
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
        """Characters of each type, and at the end the characters of <PAD>."""
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
        """Whether each word is known and has several tags in the training split."""
        ambiguous = {self.tables.words[index] for index in self.tables.ambiguous}
        return np.array([word in ambiguous for word in self.words], bool)[self.types]


class TaggedSplit(TaggedWords):
    """Sentences of a split, over all folders that have it."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        columns = folder.split(split)
        types, tags, lengths, names = [], [], [], dict[str, int]()
        options = "--format conllu, ptb or columns"
        tokenizer = tokenizer_of_kind(
            folder, TaggingTokenizer, task="pos_tagging", holds="tagged text", options=options
        )
        for column in COLUMNS:
            columns.column(column)  # raises if there is none
        check_same_tokenizer(folder, "their tags and words")
        for source in folder.sources:
            if split not in source.splits:
                continue
            parts = source.parts(split)
            types_column = Column("types", parts["types"])
            type_ids = [names.setdefault(word, len(names)) for word in read_types(source.path)]
            types.append(np.array(type_ids, np.int64)[types_column.read_all()])
            tags.append(Column("tags", parts["tags"]).read_all())
            lengths += [np.diff(part.offsets) for part in types_column.parts]
        labels = np.concatenate(tags)
        super().__init__(
            tokenizer,
            list(names),
            types=np.concatenate(types),
            tags=np.select([labels == UNSEEN_TAG, labels == UNKNOWN_TAG], [-1, -2], labels),
            lengths=np.concatenate(lengths).astype(np.int64),
        )
        check_label_ids(folder, self.tags, len(tokenizer.tables.tags))

    @cached_property
    def unseen_tags(self) -> list[str]:
        """The tag of each word whose tag the training data does not have."""
        found, words = [], 0
        for source in self.folder.sources:
            if self.name not in source.splits:
                continue
            [text], [tag_spans] = (source.parts(self.name)[name] for name in ("source", "fields"))
            data = Column("source", [text]).read_all().astype("u1").tobytes()
            spans = Column("fields", [tag_spans]).read_all().reshape(-1, 2)
            spans = spans + np.repeat(text.offsets[:-1], np.diff(tag_spans.offsets) // 2)[:, None]
            unseen = np.flatnonzero(self.tags[words : words + len(spans)] == -1)
            fields = [data[start:end].decode() for start, end in spans[unseen].tolist()]
            settings = read_meta(source.path).settings
            found += [read_tag(field, settings) for field in fields]
            words += len(spans)
        return found


def read_tag(field: str, settings: JsonObject) -> str:
    """The tag in its field of a file that was preprocessed with these settings."""
    name, tag = settings.get("format"), str(settings.get("tag"))
    if name == "ptb":
        return first_tag(field)
    return get_feature(field, tag) if name == "conllu" and tag not in TAG_COLUMNS else field


def read_types(path: Path) -> Sequence[str]:
    """The distinct words of a split."""
    return read_symbols(read_text(path / TYPES_FILE, MAX_BYTES))

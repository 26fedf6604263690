"""Tagged words for batches, given or of a split, and the files of a split with other tags.

A type is a distinct word. All is in memory: a million words take about ten megabytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange
from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes, write_output
from toolkit.common.json_files import JsonObject
from toolkit.data.formats.tagging.tokenizer import MAX_BYTES, TaggingTokenizer
from toolkit.data.formats.tagging.treebanks import (
    MISSING_TAG,
    TAG_COLUMNS,
    first_tag,
    parse_features,
    render_field,
    replace_tags,
)
from toolkit.data.storage.column_files import Column, ColumnPart, FolderSource
from toolkit.data.storage.data_folder import DataFolder, tokenizer_of_kind
from toolkit.data.storage.meta import read_meta
from toolkit.data.text_files import strip_compression_suffix
from toolkit.data.tokenizers.vocabulary import read_symbols

KIND, TYPES_FILE = "tagging", "types.txt"
COLUMNS = {"types": "<i4", "tags": "<u2", "fields": "<i4", "source": "<u1"}
UNSEEN_TAG = 65535
"""Stands for a tag that the training data does not have."""
UNKNOWN_TAG = 65534
"""Stands for a tag that is missing in the file."""


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
        self.tokenizer, self.tables = tokenizer, tokenizer.tables
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

    @cached_property
    def type_char_ids(self) -> IntArray:
        """Characters of each type, and at the end the characters of <PAD>."""
        return self.tokenizer.char_ids([*self.words, "<PAD>"])

    @cached_property
    def type_pieces(self) -> tuple[IntArray, IntArray, IntArray]:
        """Piece ids of all types back to back, with the first piece and the number of each."""
        ids, counts = self.tokenizer.encode_types(self.words)
        return ids, np.cumsum(counts) - counts, counts

    @cached_property
    def oov(self) -> BoolArray:
        """Whether each word is out of vocabulary."""
        return np.array([it not in self.tables.word_index for it in self.words], bool)[self.types]

    @cached_property
    def ambiguous(self) -> BoolArray:
        """Whether each word is known and has several tags in the training split."""
        ambiguous = {self.tables.words[index] for index in self.tables.ambiguous}
        return np.array([word in ambiguous for word in self.words], bool)[self.types]


class TaggedSplit(TaggedWords):
    """Sentences of a split, over all folders that have it."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        self.folder, self.name = folder, split
        tokenizer = tokenizer_of_kind(
            folder,
            TaggingTokenizer,
            task="pos_tagging",
            holds="tagged text",
            shared="their tags and words",
            options="--format conllu, ptb, columns or rows",
        )
        types, names = list[IntArray](), dict[str, int]()
        for source in folder.sources_of(split):
            words = read_symbols(read_bytes(source.path / TYPES_FILE, MAX_BYTES).decode())
            type_ids = [names.setdefault(word, len(names)) for word in words]
            found = Column("types", source.parts(split)["types"]).read_all()
            types.append(np.array(type_ids, np.int64)[found])
        columns = folder.split(split)
        labels = columns.column("tags").read_all()
        super().__init__(
            tokenizer,
            list(names),
            types=np.concatenate(types),
            tags=np.select([labels == UNSEEN_TAG, labels == UNKNOWN_TAG], [-1, -2], labels),
            lengths=columns.column("types").lengths.astype(np.int64),
        )

    @cached_property
    def unseen_tags(self) -> list[str]:
        """The tag of each word whose tag the training data does not have."""
        found, words = [], 0
        for source in self.folder.sources_of(self.name):
            _, _, data, spans = read_source(source, self.name)
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
    is_feature = name == "conllu" and tag not in TAG_COLUMNS
    return parse_features(field).get(tag, MISSING_TAG) if is_feature else field


def write_predictions(
    split: TaggedSplit, tags: Sequence[str], path: Path, *, for_conlleval: bool = False
) -> None:
    """Write one file to `path`, or several under their own names to the folder `path`. With
    `for_conlleval`, files of columns get the predicted tags as an additional column.
    """
    files = render_files(split, tags, for_conlleval=for_conlleval)
    names = [name for name, _ in files]
    if len(files) > 1 and len(set(names)) < len(names):
        raise ToolkitError(
            f"predictions for several files need distinct file names, but {split.name} has several "
            f"of one name. Preprocess them separately."
        )
    if len(files) == 1:
        write_output(path, files[0][1])
        return
    path.mkdir(parents=True, exist_ok=True)
    for name, data in files:
        write_output(path / name, data)


def render_files(
    split: TaggedSplit, tags: Sequence[str], *, for_conlleval: bool = False
) -> list[tuple[str, bytes]]:
    """Name and contents of every file of the split, in order."""
    files, word = [], 0
    for source in split.folder.sources_of(split.name):
        meta = read_meta(source.path)
        settings = meta.settings
        is_feature = settings.get("format") == "conllu" and settings.get("tag") not in TAG_COLUMNS
        adds_column = for_conlleval and settings.get("format") == "columns"
        render = partial(
            render_field,
            feature=str(settings.get("tag")) if is_feature else "",
            alternatives=settings.get("format") == "ptb",
        )
        text, fields, data, spans = read_source(source, split.name)
        files_read = meta.splits[split.name].get("files", [])
        names = [strip_compression_suffix(name) for name in files_read]
        edges = [*text.document_starts[:].tolist(), text.items]
        for name, (first, last) in zip(names, pairwise(edges), strict=True):
            start, end = text.offsets[[first, last]].tolist()
            words = slice(*(fields.offsets[[first, last]] // 2).tolist())
            file_spans, file_tags = spans[words] - start, tags[word:][words]
            if adds_column:
                separator = chr(data[start + file_spans[0, 0] - 1])
                render = partial("{0}{separator}{1}".format, separator=separator)
            content = replace_tags(data[start:end], file_spans.tolist(), file_tags, render)
            if adds_column:  # with O in the lines that start a document
                line = rb"(?m)^(?:\xef\xbb\xbf)?-DOCSTART-([ \t])[^\r\n]*"
                content = re.sub(line, rb"\g<0>\1O", content)
            files.append((name, content))
        word += len(spans)
    return files


def read_source(source: FolderSource, split: str) -> tuple[ColumnPart, ColumnPart, bytes, IntArray]:
    """The columns of the text and of the spans of tags; the text, and each word's span in it."""
    [text], [fields] = (source.parts(split)[name] for name in ("source", "fields"))
    data = Column("source", [text]).read_all().astype("u1").tobytes()
    spans = Column("fields", [fields]).read_all().reshape(-1, 2)
    starts = np.repeat(text.offsets[:-1], np.diff(fields.offsets) // 2)
    return text, fields, data, spans + starts[:, None]


class Chunks(NamedTuple):
    """Runs of consecutive words."""

    starts: IntArray
    """First word of each, numbered across the split."""
    word_counts: IntArray
    token_counts: IntArray


def split_into_chunks(lengths: IntArray, tokens: IntArray, max_tokens: int) -> Chunks:
    """Chunks of at most `max_tokens` tokens, of sentences with `lengths` words.

    `tokens` is the number of tokens of each word, at most `max_tokens`. Each chunk is as long as
    possible: if every word is one token, 130 words become chunks of 60, 60 and 10.
    """
    filled = lengths > 0
    ends = np.cumsum(lengths)[filled]
    sentence_starts = ends - lengths[filled]
    totals = np.append(0, np.cumsum(tokens))
    long = np.flatnonzero(totals[ends] - totals[sentence_starts] > max_tokens)
    inner = [
        find_inner_starts(totals, start, end, max_tokens)
        for start, end in zip(sentence_starts[long].tolist(), ends[long].tolist(), strict=True)
    ]
    starts = np.sort(np.concatenate([sentence_starts, *inner]))
    words = np.diff(starts, append=int(lengths.sum()))
    return Chunks(starts, words, totals[starts + words] - totals[starts])


def find_inner_starts(totals: IntArray, start: int, end: int, max_tokens: int) -> IntArray:
    """Starts of the second and later chunks of one sentence."""
    starts = []
    while totals[end] - totals[start] > max_tokens:
        start = int(np.searchsorted(totals, totals[start] + max_tokens, side="right")) - 1
        starts.append(start)
    return np.array(starts, np.int64)


def word_indices(chunks: Chunks, ids: IntArray) -> IntArray:
    """Indices of the words of some chunks, back to back."""
    return ragged_arange(chunks.starts[ids], chunks.word_counts[ids])

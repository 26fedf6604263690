"""Tagged sentences, as every reader of tagged text yields them, and the options of formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from toolkit.config.declared import Above, AtLeast, AtMost, NonNegativeInt, Options


@dataclass(frozen=True, kw_only=True)
class TaggingFormatConfig(Options, section="format"):
    """Options of all formats of tagged text."""

    vocabulary_from: Literal["train", "all"] = "train"
    """Splits whose words and tags are known: train, or all as in Dufter et al. 2020, who also
    counted the words of the validation and test data."""
    type_fraction: Annotated[float, Above(0), AtMost(1)] = 1.0
    """Fraction of the distinct words, the most frequent ones, that enter the vocabulary, in place
    of vocab_size. Dufter et al. 2020 take 0.5."""
    unseen_tags: Literal["error", "wrong"] = "error"
    """How to handle a tag in validation or test data that the training data does not have. error:
    stop and name its line. wrong: keep the word and count every prediction as wrong. With wrong,
    CoNLL-U and columns may also hold _ in place of tags, for toolkit-validate --predictions."""
    word_vectors: str | None = None
    """Pretrained word vectors in fastText's .vec format, plain or .gz: a line with count and width,
    then a word and its numbers per line."""
    max_word_vectors: NonNegativeInt = 0
    """Maximum number of vectors to read from that file, which is sorted by frequency; 0 for all."""
    max_item_tokens: NonNegativeInt = 0
    """Maximum number of words per sentence; 0 for no limit. A longer sentence is an error."""


@dataclass(frozen=True, kw_only=True)
class ConlluConfig(TaggingFormatConfig):
    """Options of the format for CoNLL-U."""

    tag: str = "upos"
    """The column to predict: upos, xpos or the name of a feature such as Number."""
    empty_nodes: bool = False
    """Read empty nodes (numbers such as 8.1) as words. Multiword ranges are never words."""


@dataclass(frozen=True, kw_only=True)
class PennTreebankConfig(TaggingFormatConfig):
    """Options of the format for the Penn Treebank."""

    train_sections: str = ""
    """Sections of trainpref to read, such as 0-18 or 0,2,4; empty for all. The section of wsj_0123
    is 01, that of another file its folder. Four digits are files, such as 0001-0139."""
    valid_sections: str = ""
    """Sections of validpref to read."""
    test_sections: str = ""
    """Sections of testpref to read."""


@dataclass(frozen=True, kw_only=True)
class ConllColumnsConfig(TaggingFormatConfig):
    """A word and its tag per line."""

    tag_column: Annotated[int, AtLeast(2)] = 2
    """Number of the column with the tags, from 1; the first column has the words. 3 for the chunks
    of CoNLL-2000, 4 for the named entities of CoNLL-2003."""


class TaggedSentence(NamedTuple):
    """The words of a sentence, and its bytes.

    The bytes of all sentences of a file, back to back, are the file.
    """

    words: list[str]
    tags: list[str]
    tag_spans: list[tuple[int, int]]
    """Span of each tag in `source`."""
    lines: list[int]
    """Line of each word in the file, counted from 1."""
    source: bytes

    @classmethod
    def empty(cls, source: bytes = b"") -> TaggedSentence:
        return cls([], [], [], [], source)

    def add(self, word: str, tag: str, span: tuple[int, int], line: int) -> None:
        self.words.append(word)
        self.tags.append(tag)
        self.tag_spans.append(span)
        self.lines.append(line)


class ParsedSentence(NamedTuple):
    """A sentence without its bytes, and their span in the file; tag spans start with it."""

    sentence: TaggedSentence
    start: int
    end: int


class TaggedFile(NamedTuple):
    """The sentences of one file."""

    path: Path
    sentences: list[TaggedSentence]


def attach_source(parsed: Iterator[ParsedSentence], data: bytes) -> Iterator[TaggedSentence]:
    """Sentences with their bytes, which include the bytes between this sentence and the last.

    The last sentence also gets the bytes after it.
    """
    pending: TaggedSentence | None = None
    reached = 0
    for sentence, start, end in parsed:
        if pending is not None:
            yield pending
        shift = start - reached
        spans = [(first + shift, last + shift) for first, last in sentence.tag_spans]
        pending = sentence._replace(tag_spans=spans, source=data[reached:end])
        reached = end
    if pending is not None:
        yield pending._replace(source=pending.source + data[reached:])


TAG_COLUMNS = {"upos": 3, "xpos": 4}
FEATURES = 5
MISSING_TAG = "_"


def tag_column(tag: str) -> int:
    """The column of upos or xpos; for the name of a feature, the column of features."""
    return TAG_COLUMNS.get(tag, FEATURES)


def get_feature(field: str, name: str) -> str:
    """The value of a feature in the column FEATS; `_` if it is absent."""
    return parse_features(field).get(name, MISSING_TAG)


def set_feature(field: str, name: str, value: str) -> str:
    """The column FEATS with one feature set, or removed for `_`, in alphabetical order."""
    features = parse_features(field)
    if features.get(name, MISSING_TAG) == value:
        return field
    features.pop(name, None)
    if value != MISSING_TAG:
        features[name] = value
    return "|".join(f"{n}={features[n]}" for n in sorted(features, key=str.lower)) or MISSING_TAG


def parse_features(field: str) -> dict[str, str]:
    """The features of the column FEATS."""
    return dict(part.split("=", 1) for part in field.split("|") if "=" in part)

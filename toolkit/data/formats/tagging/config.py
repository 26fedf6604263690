"""Options of text with a tag for each word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

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

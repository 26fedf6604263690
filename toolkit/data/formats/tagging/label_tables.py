"""Label tables of a tagger: labels, characters, known and ambiguous words.

Known words are separate from the vocabulary, which may consist of pieces, so that all taggers are
evaluated on the same unknown and ambiguous words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, digest_json, read_json, write_json
from toolkit.data.formats.tagging.tag_fields import MISSING_TAG, TAG_COLUMNS

TABLES_FILE = "tagging.json"
REMEDY = "Run toolkit-preprocess again."
MAX_BYTES = 256 << 20
PAD, OOV = "<PAD>", "<OOV>"
ANY_COLUMN = ""
"""The column of a converted tagger, which fits every kind of tags."""
COMPLETE = (*TAG_COLUMNS, "columns", ANY_COLUMN)
"""Columns in which every word has a tag, so `_` is an unknown tag. For features, it is a label."""
FIRST_CHARACTER = 2  # after the ids of padding and of unknown characters


@dataclass(frozen=True, kw_only=True)
class LabelTables:
    """The labels of a tagger, and what it knows of characters and words."""

    tags: list[str]
    """Labels, the most frequent first."""
    characters: list[str]
    """Characters of the training data, and those of <PAD>."""
    words: list[str]
    """Known words, the most frequent first; all others are out of vocabulary."""
    ambiguous: list[Count]
    """Indices of known words that have several tags in the training data."""
    column: str
    """Kind of tags: upos, xpos or a feature in CoNLL-U, else the name of the format."""

    @cached_property
    def word_index(self) -> Mapping[str, int]:
        """Known word -> its index."""
        return {word: index for index, word in enumerate(self.words)}

    @cached_property
    def fingerprint(self) -> str:
        return digest_json(asdict(self))

    @property
    def unknown_tags(self) -> set[str]:
        """`_`, unless it is the label of an absent feature."""
        return {MISSING_TAG} if self.column in COMPLETE else set()

    def save(self, folder: Path) -> None:
        write_json(folder / TABLES_FILE, asdict(self), ensure_ascii=False, indent=0)

    @classmethod
    def load(cls, folder: Path) -> LabelTables:
        """The tables that `save` wrote."""
        return read_json(folder / TABLES_FILE, cls, REMEDY, max_bytes=MAX_BYTES)

    def __post_init__(self) -> None:
        if max(self.ambiguous, default=-1) >= len(self.words):
            raise ToolkitError(f"ambiguous: expected numbers below {len(self.words)}")

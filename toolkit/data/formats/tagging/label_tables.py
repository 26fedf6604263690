"""Tables of a tagger besides its vocabulary: labels, characters, known and ambiguous words.

Words are counted apart from the vocabulary, which may consist of pieces, so that all taggers are
evaluated on the same unknown and ambiguous words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from toolkit.common.digest import sha256
from toolkit.common.json_files import read_json
from toolkit.data.formats.tagging.tag_fields import MISSING_TAG, TAG_COLUMNS

TABLES_FILE = "tagging.json"
MAX_BYTES = 256 << 20
PAD, OOV = "<PAD>", "<OOV>"
COMPLETE = (*TAG_COLUMNS, "columns")
"""Columns in which every word has a tag, so that `_` is an unknown one. The absence of a feature is
a label."""
FIRST_CHARACTER = 2  # after that of padding and that of characters not seen in training


@dataclass(frozen=True, kw_only=True)
class LabelTables:
    tags: list[str]
    """Labels, the most frequent first."""
    characters: list[str]
    """Characters of the training data, and those of <PAD>."""
    words: list[str]
    """Known words, the most frequent first; all others are out of vocabulary."""
    ambiguous: list[int]
    """Indices of known words that have several tags in the training data."""
    column: str
    """What the tags are: upos, xpos or a feature in CoNLL-U, else the name of the format."""

    @cached_property
    def word_index(self) -> Mapping[str, int]:
        """Known word -> its index."""
        return {word: index for index, word in enumerate(self.words)}

    @cached_property
    def fingerprint(self) -> str:
        return sha256(json.dumps(asdict(self), sort_keys=True))

    @property
    def unknown_tags(self) -> set[str]:
        """What stands for a tag that is not known: `_`, except as the absence of a feature."""
        return {MISSING_TAG} if self.column in COMPLETE else set()

    def save(self, folder: Path) -> None:
        text = json.dumps(asdict(self), ensure_ascii=False, indent=0)
        (folder / TABLES_FILE).write_text(text + "\n", "utf-8", newline="\n")

    @classmethod
    def load(cls, folder: Path) -> LabelTables:
        """Anything but the lists that `save` wrote is a ValueError or a TypeError."""
        found = read_json(folder / TABLES_FILE, MAX_BYTES)
        texts = ("tags", "characters", "words")
        if not all(isinstance(it, str) for name in texts for it in found[name]):
            raise ValueError(f"{TABLES_FILE} holds other things than texts")
        places = found["ambiguous"]
        if not all(type(it) is int and 0 <= it < len(found["words"]) for it in places):
            raise ValueError(f"{TABLES_FILE} names words that are none of it")
        return cls(**found)

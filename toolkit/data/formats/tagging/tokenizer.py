"""The tokenizer of tagged text, with the label tables of a tagger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.json_files import JsonObject
from toolkit.data.formats.tagging.label_tables import (
    FIRST_CHARACTER,
    OOV,
    PAD,
    TABLES_FILE,
    LabelTables,
)
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import ROLES, Vocabulary
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.data.tokenizers.wrapped import WrappedTokenizer, restore_inner

MAX_WORD_CHARACTERS = 20  # later characters of a word are ignored (Dufter et al. 2020, code)


class TaggingTokenizer(WrappedTokenizer):
    """Reads text as `inner` does, which tokenizes into words or pieces."""

    kind = "tagging"

    def __init__(self, inner: Tokenizer, tables: LabelTables) -> None:
        super().__init__(inner, TABLES_FILE)
        self.tables = tables

    @classmethod
    def of_words(cls, tables: LabelTables) -> TaggingTokenizer:
        """Every known word is a symbol, after <PAD> and <OOV>: V + 2, as in Dufter et al. 2020."""
        roles = {**dict.fromkeys(ROLES, 0), "unk": 1}
        vocabulary = Vocabulary([PAD, OOV, *tables.words], mark="", **roles)
        return cls(WordLevelTokenizer(vocabulary), tables)

    @cached_property
    def has_words(self) -> bool:
        """Whether the vocabulary has words; otherwise it has pieces."""
        return self.vocabulary.symbols[2:] == self.tables.words

    @property
    def sizes(self) -> dict[str, int]:
        characters = FIRST_CHARACTER + len(self.tables.characters)
        return {**super().sizes, "characters": characters, "tags": len(self.tables.tags)}

    @property
    def fingerprint(self) -> str:
        return f"{self.vocabulary.fingerprint} {self.tables.fingerprint}"

    def describe_difference(self, other: Tokenizer) -> str:
        """Of a converted tagger only the tags are compared: it has no known words."""
        same_ids = self.vocabulary.fingerprint == other.vocabulary.fingerprint
        if same_ids and isinstance(other, TaggingTokenizer) and not other.tables.words:
            return "" if self.tables.tags == other.tables.tags else "their tags differ"
        return super().describe_difference(other)

    @cached_property
    def _character_ids(self) -> Mapping[str, int]:
        return {c: i for i, c in enumerate(self.tables.characters, FIRST_CHARACTER)}

    def char_ids(self, words: Sequence[str]) -> IntArray:
        """Ids of the first 20 characters of each word, padded with 0; 1 is an unknown character."""
        char_ids = np.zeros((len(words), MAX_WORD_CHARACTERS), np.int64)
        for row, word in enumerate(words):
            ids = [self._character_ids.get(c, 1) for c in word[:MAX_WORD_CHARACTERS]]
            char_ids[row, : len(ids)] = ids
        return char_ids

    def encode_types(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Piece ids of all words back to back, and the number per word, which is at least one."""
        if self.has_words:
            index, unknown = self.tables.word_index, self.vocabulary.unk
            rows = [index[word] + 2 if word in index else unknown for word in words]
            return np.array(rows, np.int64), np.ones(len(words), np.int64)
        ids, lengths = self.inner.encode_words(words)
        starts = np.cumsum(lengths)[lengths == 0]
        return np.insert(ids, starts, self.vocabulary.unk), np.maximum(lengths, 1)

    def save(self, folder: Path | str) -> None:
        super().save(folder)
        self.tables.save(Path(folder))

    @classmethod
    def _restore(
        cls, folder: Path, settings: JsonObject, symbols: Sequence[str]
    ) -> TaggingTokenizer:
        return cls(restore_inner(folder, settings, symbols), LabelTables.load(folder))

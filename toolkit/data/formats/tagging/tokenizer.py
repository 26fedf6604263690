"""The tokenizer of a tagged folder: that of its words or pieces, and the tables of a tagger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.formats.tagging.label_tables import (
    FIRST_CHARACTER,
    OOV,
    PAD,
    TABLES_FILE,
    LabelTables,
)
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import ROLES, Vocabulary, starts_whole_word
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.data.tokenizers.wrapped import WrappedTokenizer, restore_inner

MAX_WORD_CHARACTERS = 20  # characters of a word that are read (Dufter et al. 2020, code)


class TaggingTokenizer(WrappedTokenizer):
    """Reads text as the tokenizer within it does, which may be one of whole words or of pieces."""

    kind = "tagging"

    def __init__(self, inner: Tokenizer, tables: LabelTables) -> None:
        super().__init__(inner, TABLES_FILE)
        self.tables = tables

    @classmethod
    def of_words(cls, tables: LabelTables) -> TaggingTokenizer:
        """Every known word is a symbol, after <PAD> and <OOV>: V + 2, as in Dufter et al. 2020."""
        roles = {**dict.fromkeys(ROLES, 0), "unk": 1}
        vocabulary = Vocabulary([PAD, OOV, *tables.words], is_word_start=starts_whole_word, **roles)
        return cls(WordLevelTokenizer(vocabulary), tables)

    @cached_property
    def has_words(self) -> bool:
        """Whether the vocabulary is one of whole words; else it is one of pieces."""
        return self.vocabulary.symbols[2:] == self.tables.words

    @property
    def sizes(self) -> dict[str, int]:
        characters = FIRST_CHARACTER + len(self.tables.characters)
        return {**super().sizes, "characters": characters, "tags": len(self.tables.tags)}

    @property
    def fingerprint(self) -> str:
        return f"{self.vocabulary.fingerprint} {self.tables.fingerprint}"

    @cached_property
    def _character_ids(self) -> Mapping[str, int]:
        return {c: i for i, c in enumerate(self.tables.characters, FIRST_CHARACTER)}

    def char_ids(self, words: Sequence[str]) -> IntArray:
        """Character ids of each word, 20 at most and padded to as many; 1 is an unknown one."""
        found = np.zeros((len(words), MAX_WORD_CHARACTERS), np.int64)
        ids = self._character_ids
        for row, word in enumerate(words):
            spelled = [ids.get(c, 1) for c in word[:MAX_WORD_CHARACTERS]]
            found[row, : len(spelled)] = spelled
        return found

    def encode_types(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Ids of the pieces of all words, and how many each word has: at least one."""
        if self.has_words:
            index, unknown = self.tables.word_index, self.vocabulary.unk
            rows = [index[word] + 2 if word in index else unknown for word in words]
            return np.array(rows, np.int64), np.ones(len(words), np.int64)
        ids, lengths = self.inner.encode_words(words)
        blank = np.flatnonzero(lengths == 0)
        places = np.cumsum(lengths)[blank]
        return np.insert(ids, places, self.vocabulary.unk), np.maximum(lengths, 1)

    def save(self, folder: Path | str) -> None:
        super().save(folder)
        self.tables.save(Path(folder))

    @classmethod
    def _restore(
        cls, folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]
    ) -> TaggingTokenizer:
        return cls(restore_inner(folder, settings, symbols), LabelTables.load(folder))

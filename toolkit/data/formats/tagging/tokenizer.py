"""The tokenizer of tagged text, with a tagger's labels, characters, known and ambiguous words.

Known words are separate from the vocabulary, which may consist of pieces, so that all taggers are
evaluated on the same unknown and ambiguous words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonObject, digest_json, read_json, write_json
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.tagging.sentence import (
    MISSING_TAG,
    TAG_COLUMNS,
    TaggedFile,
    TaggedSentence,
    TaggingFormatConfig,
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


def build_tables(
    splits: Mapping[str, Sequence[TaggedFile]],
    options: TaggingFormatConfig,
    config: PreprocessConfig,
    column: str,
) -> LabelTables:
    """Learn from the training data; with --vocabulary-from all, labels and words of all splits."""
    if "train" not in splits:
        raise ToolkitError(
            "no training data to learn labels and words from. Give --trainpref, or with "
            "--tokenizer-from a data folder or checkpoint that has learned them."
        )
    training = join_sentences(splits["train"])
    counted = training
    if options.vocabulary_from == "all":
        counted = join_sentences(file for files in splits.values() for file in files)
    counts = Counter(word for sentence in counted for word in sentence.words)
    words = select_known_words(counts, options, config)
    ambiguous = find_ambiguous_words(training)
    return LabelTables(
        tags=collect_tags(counted, column),
        characters=collect_characters(training),
        words=words,
        ambiguous=[index for index, word in enumerate(words) if word in ambiguous],
        column=column,
    )


def join_sentences(files: Iterable[TaggedFile]) -> list[TaggedSentence]:
    """The sentences of all files."""
    return [sentence for file in files for sentence in file.sentences]


def collect_tags(sentences: Iterable[TaggedSentence], column: str) -> list[str]:
    """Tags, the most frequent first."""
    tags = Counter(tag for sentence in sentences for tag in sentence.tags)
    if set(tags) == {MISSING_TAG}:
        raise ToolkitError(
            f"no word of the training data has {column!r}. Correct --tag: upos, xpos or a feature."
        )
    if column in COMPLETE:
        tags.pop(MISSING_TAG, None)
    return [tag for tag, _ in tags.most_common()]


def collect_characters(training: Iterable[TaggedSentence]) -> list[str]:
    """Characters, the most frequent first, then further ones of <PAD>."""
    counts = Counter(c for sentence in training for word in sentence.words for c in word)
    return [
        *(c for c, _ in counts.most_common()),
        *(c for c in dict.fromkeys(PAD) if c not in counts),
    ]


def select_known_words(
    counts: Counter[str], options: TaggingFormatConfig, config: PreprocessConfig
) -> list[str]:
    """The most frequent words within the limits; equally frequent ones in the text's order."""
    fraction = options.type_fraction
    limit = config.vocab_size if fraction == 1 else round(fraction * len(counts))
    return [word for word, count in counts.most_common(limit) if count >= config.min_count]


def find_ambiguous_words(training: Iterable[TaggedSentence]) -> set[str]:
    """Words with several tags."""
    first: dict[str, str] = {}
    ambiguous = set()
    for sentence in training:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            if first.setdefault(word, tag) != tag:
                ambiguous.add(word)
    return ambiguous

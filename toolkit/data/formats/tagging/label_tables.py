"""Label tables of a tagger: labels, characters, known and ambiguous words.

Known words are separate from the vocabulary, which may consist of pieces, so that all taggers are
evaluated on the same unknown and ambiguous words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, digest_json, read_json, write_json
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.tagging.sentence import (
    MISSING_TAG,
    TAG_COLUMNS,
    TaggedFile,
    TaggedSentence,
    TaggingFormatConfig,
)

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

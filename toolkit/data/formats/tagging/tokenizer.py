"""What taggers learn from text: labels, characters, known and ambiguous words; their tokenizer.

Known words are separate from the vocabulary: all taggers are evaluated on the same unknown ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonObject, digest_json, read_json, write_json
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.declared import Above, AtLeast, AtMost, NonNegativeInt, Options
from toolkit.data.formats.tagging.treebanks import (
    MISSING_TAG,
    TAG_COLUMNS,
    TaggedFile,
    TaggedSentence,
)
from toolkit.data.text_files import open_text
from toolkit.data.tokenizers.tokenizer import (
    Tokenizer,
    WrappedTokenizer,
    name_labels,
    restore_inner,
)
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

MAX_WORD_CHARACTERS = 20  # later characters of a word are ignored (Dufter et al. 2020, code)


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
class ConllColumnsConfig(TaggingFormatConfig):
    """A word and its tag per line."""

    word_column: Annotated[int, AtLeast(1)] = 1
    """Number of the column with the words, from 1; 2 for lines that begin with the number of the
    word, as in GermEval 2014 and Universal NER."""
    tag_column: Annotated[int, AtLeast(2)] = 2
    """Number of the column with the tags; 3 for the chunks of CoNLL-2000, and after a column of
    numbers, 4 for the named entities of CoNLL-2003."""


class TaggingTokenizer(WrappedTokenizer):
    """Reads text as `inner` does, which tokenizes into words or pieces."""

    kind = "tagging"

    def __init__(self, inner: Tokenizer, tables: LabelTables) -> None:
        super().__init__(inner, TABLES_FILE)
        self.tables = tables

    @classmethod
    def of_words(cls, tables: LabelTables) -> TaggingTokenizer:
        """Every known word is a symbol, after <PAD> and <OOV>: V + 2, as in Dufter et al. 2020."""
        symbols = [PAD, OOV, *tables.words]
        vocabulary = Vocabulary(symbols, mark="", pad=0, cls=0, sep=0, mask=0, unk=1)
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

    def char_ids(self, words: Sequence[str]) -> IntArray:
        """Ids of the first 20 characters of each word, padded with 0; 1 is an unknown character."""
        known = {c: i for i, c in enumerate(self.tables.characters, FIRST_CHARACTER)}
        char_ids = np.zeros((len(words), MAX_WORD_CHARACTERS), np.int64)
        for row, word in enumerate(words):
            ids = [known.get(c, 1) for c in word[:MAX_WORD_CHARACTERS]]
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

    def label_settings(self) -> JsonObject:
        return name_labels(self.tables.tags)

    def save(self, folder: Path | str) -> None:
        super().save(folder)
        path, values = Path(folder) / TABLES_FILE, asdict(self.tables)
        write_json(path, values, ensure_ascii=False, indent=0)

    @classmethod
    def _restore(cls, folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
        tables = read_json(folder / TABLES_FILE, LabelTables, REMEDY, max_bytes=MAX_BYTES)
        return cls(restore_inner(folder, settings, symbols), tables)


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

    def __post_init__(self) -> None:
        if max(self.ambiguous, default=-1) >= len(self.words):
            raise ToolkitError(f"ambiguous: expected numbers below {len(self.words)}")


def build_tables(
    splits: Mapping[str, Sequence[TaggedFile]],
    options: TaggingFormatConfig,
    config: PreprocessConfig,
    column: str,
) -> LabelTables:
    """Learn from the training data; with --vocabulary-from all, labels and words of all splits.
    They are sorted by frequency, and equally frequent ones are in the text's order.
    """
    if "train" not in splits:
        raise ToolkitError(
            "no training data to learn labels and words from. Give --trainpref, or with "
            "--tokenizer-from a data folder or checkpoint that has learned them."
        )
    training = counted = join_sentences(splits["train"])
    if options.vocabulary_from == "all":
        counted = join_sentences(file for files in splits.values() for file in files)
    counts = Counter(word for sentence in counted for word in sentence.words)
    fraction = options.type_fraction
    limit = config.vocab_size if fraction == 1 else round(fraction * len(counts))
    words = [word for word, count in counts.most_common(limit) if count >= config.min_count]
    tags_of = defaultdict[str, set[str]](set)
    for sentence in training:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            tags_of[word].add(tag)
    tags = Counter(tag for sentence in counted for tag in sentence.tags)
    if set(tags) == {MISSING_TAG}:
        raise ToolkitError(f"no word of the training data has {column!r}. Choose another --tag.")
    if column in COMPLETE:
        tags.pop(MISSING_TAG, None)
    characters = Counter(c for sentence in training for word in sentence.words for c in word)
    return LabelTables(
        tags=[tag for tag, _ in tags.most_common()],
        characters=list(dict.fromkeys([*(c for c, _ in characters.most_common()), *PAD])),
        words=words,
        ambiguous=[index for index, word in enumerate(words) if len(tags_of[word]) > 1],
        column=column,
    )


def join_sentences(files: Iterable[TaggedFile]) -> list[TaggedSentence]:
    """The sentences of all files."""
    return [sentence for _, sentences in files for sentence in sentences]


SPREAD = 0.05  # words without a vector: uniform in +-0.05 (Dufter et al. 2020, code)

VectorTable = npt.NDArray[np.float32]


def read_word_vectors(
    path: Path, symbols: Sequence[str], *, limit: int = 0, seed: int = 0
) -> tuple[VectorTable, int]:
    """A row for each symbol: its vector, or a random one; and how many vectors were found.

    Only the first `limit` vectors are read, or all. Vectors of other words are skipped unparsed;
    of several vectors of one word the first counts.
    """
    rows = {symbol.encode(): row for row, symbol in enumerate(symbols)}
    vectors: dict[int, VectorTable] = {}
    with open_text(path, allow_pipe=True) as file:
        sizes = (header := file.readline()).split()
        if len(sizes) != 2 or not all(size.isdigit() and int(size) for size in sizes):
            raise ToolkitError(
                f"{path}:1: expected the number of vectors and their width, found {header[:40]!r}. "
                f"Give fastText's text format, .vec."
            )
        count, width = map(int, sizes)
        for number, word, line in _read_lines(path, file, count, width, limit):
            if (row := rows.get(word)) is not None and row not in vectors:
                vectors[row] = _parse_numbers(path, number, line[len(word) :], width)
    table = np.random.default_rng(seed).uniform(-SPREAD, SPREAD, (len(symbols), width))
    if vectors:
        table[list(vectors)] = np.stack(list(vectors.values()))
    return table.astype(np.float32), len(vectors)


def _read_lines(
    path: Path, lines: Iterator[bytes], count: int, width: int, limit: int
) -> Iterator[tuple[int, bytes, bytes]]:
    """Line number, word and line of each vector; a word may contain spaces."""
    number, last = 1, 1 + (min(limit, count) if limit else count)
    for number, line in enumerate(islice(lines, last - 1), 2):
        line = line.rstrip()
        spaces = line.count(b" ")
        if spaces < width:
            raise ToolkitError(
                f"{path}:{number}: expected a word and {width} numbers, found {spaces} numbers."
            )
        # most words contain no space: looking for the first one is fast
        word = line[: line.index(b" ")] if spaces == width else line.rsplit(b" ", width)[0]
        yield number, word, line
    if number < last:
        raise ToolkitError(
            f"{path}:{number + 1}: expected {count} vectors, as the first line says, but the file "
            f"ends here. It is cut off: copy it again."
        )


def _parse_numbers(path: Path, number: int, text: bytes, width: int) -> VectorTable:
    try:
        vector = np.array([float(n) for n in text.split()], np.float32)
    except ValueError as error:
        message = f"{path}:{number}: expected {width} numbers after the word: {error}."
        raise ToolkitError(message) from error
    if len(vector) != width or not np.isfinite(vector).all():
        raise ToolkitError(f"{path}:{number}: expected {width} finite numbers after the word.")
    return vector

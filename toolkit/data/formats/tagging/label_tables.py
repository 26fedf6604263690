"""What a tagger knows besides its vocabulary: the labels, the characters, and the words it counts.

Words are counted apart from the vocabulary, which may be one of pieces, so that all taggers are
asked about the same unknown and ambiguous words.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.tagging.conllu import COLUMNS, MISSING_TAG
from toolkit.data.formats.tagging.sentence import TaggedSentence

TABLES_FILE = "tagging.json"
MAX_BYTES = 256 << 20
PAD, OOV = "<PAD>", "<OOV>"
COMPLETE = (*COLUMNS, "columns")
"""What every word has, so that `_` is a tag that is not known; a feature's absence is a label."""
FIRST_CHARACTER = 2  # behind that of padding and that of characters not seen in training


@dataclass(frozen=True, kw_only=True)
class LabelTables:
    tags: list[str]
    """Labels, the most frequent one first."""
    characters: list[str]
    """Those of the training part, and those that spell <PAD>."""
    words: list[str]
    """The known words, the most frequent one first; others are out of vocabulary."""
    ambiguous: list[int]
    """The known words, by their place, that have several tags in the training part."""
    column: str
    """What the tags are: the format they were read from, and there upos, xpos or a feature."""

    @cached_property
    def word_index(self) -> Mapping[str, int]:
        """Known word -> its place."""
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

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


def build_tables(
    splits: Mapping[str, Sequence[TaggedSentence]], config: PreprocessConfig, column: str
) -> LabelTables:
    """Labels, characters and known words of the training part, or of all where it is asked."""
    if "train" not in splits:
        raise ToolkitError(
            "labels and words must be learned from a training part, but there is none. Give "
            "--trainpref, or with --tokenizer-from a data folder or checkpoint that has learned "
            "them."
        )
    training = splits["train"]
    counted = training if config.vocabulary_from == "train" else chained(splits.values())
    words = select_known_words(Counter(word for s in counted for word in s.words), config)
    tags = Counter(tag for sentence in counted for tag in sentence.tags)
    if set(tags) == {MISSING_TAG}:
        raise ToolkitError(
            f"tag must be upos, xpos or a feature of the training part, but no word there has "
            f"{column!r}. Correct --tag."
        )
    if column in COMPLETE:
        tags.pop(MISSING_TAG, None)
    characters = Counter(c for sentence in training for word in sentence.words for c in word)
    alone = [c for c in dict.fromkeys(PAD) if c not in characters]
    several = find_ambiguous_words(training)
    return LabelTables(
        tags=[tag for tag, _ in tags.most_common()],
        characters=[*(c for c, _ in characters.most_common()), *alone],
        words=words,
        ambiguous=[place for place, word in enumerate(words) if word in several],
        column=column,
    )


def chained(parts: Iterable[Sequence[TaggedSentence]]) -> list[TaggedSentence]:
    return [sentence for part in parts for sentence in part]


def select_known_words(counts: Counter[str], config: PreprocessConfig) -> list[str]:
    """The most frequent words, within the limits that the options set.

    Of words that come equally often, those that come first in the text.
    """
    share = config.type_fraction
    most = config.vocab_size if share == 1 else round(share * len(counts))
    return [word for word, count in counts.most_common(most) if count >= config.min_count]


def find_ambiguous_words(training: Iterable[TaggedSentence]) -> set[str]:
    first: dict[str, str] = {}
    several = set()
    for sentence in training:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            if first.setdefault(word, tag) != tag:
                several.add(word)
    return several


def facts(tables: LabelTables) -> dict[str, Any]:
    return {"tags": len(tables.tags), "characters": len(tables.characters)}

"""A tagger's labels, characters and known words, learned from the splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.tagging.config import TaggingFormatConfig
from toolkit.data.formats.tagging.label_tables import COMPLETE, PAD, LabelTables
from toolkit.data.formats.tagging.sentence import TaggedFile, TaggedSentence
from toolkit.data.formats.tagging.tag_fields import MISSING_TAG


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

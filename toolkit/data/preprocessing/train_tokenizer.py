"""Training tokenizers: samples of the text, word counts, SentencePiece models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.preprocessing.segmentation import read_items
from toolkit.data.preprocessing.split_files import estimate_bytes
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.text_files import FileChunk
from toolkit.data.tokenizers.normalize import lower_without_accents, split_long_words
from toolkit.data.tokenizers.sentencepiece import train_pieces


class TrainingText(NamedTuple):
    """The text that a tokenizer is trained on."""

    parts: Sequence[Sequence[FileChunk]]
    """Parts of about equal size, one for a worker at a time."""
    segment_by: str
    max_line_bytes: int

    def items(self, part: Sequence[FileChunk]) -> Iterator[str]:
        """The items of one part."""
        for chunk in part:
            for batch in read_items(chunk, self.segment_by, self.max_line_bytes):
                yield from batch.items


def sample_text(text: TrainingText, config: PreprocessConfig, pool: WorkerPool) -> list[str]:
    """Items to learn pieces from, spread evenly over the text.

    They have about `sentencepiece_megabytes`, or more if each part is too short for an item.
    """
    size = sum(estimate_bytes(chunk) for part in text.parts for chunk in part)
    limit = config.sentencepiece_megabytes * 1e6
    fraction = min(1.0, limit / size) if limit else 1.0
    lower = config.lowercase and config.tokenizer_kind == "sentencepiece"  # WordPiece does it later
    while True:
        sample = partial(sample_items, text=text, fraction=fraction, lower=lower)
        items = [item for part in pool.map(sample, text.parts) for item in part]
        if items or fraction == 1:
            return items
        fraction = min(1.0, 2 * fraction)


def sample_items(
    part: Sequence[FileChunk], text: TrainingText, fraction: float, lower: bool
) -> list[str]:
    """A fraction of the items of one part, evenly spread, as the model will see them."""
    kept = []
    for number, item in enumerate(text.items(part)):
        if int((number + 1) * fraction) > int(number * fraction):
            kept.append(split_long_words(lower_without_accents(item) if lower else item))
    return kept


def count_words(text: TrainingText, pool: WorkerPool, *, lowercase: bool) -> Counter[str]:
    """Word -> its number of occurrences, as a word-level vocabulary counts them."""
    total = Counter[str]()
    for _, counts in pool.imap(partial(count_part, text=text, lowercase=lowercase), text.parts):
        total.update(counts)
    return total


def count_part(part: Sequence[FileChunk], text: TrainingText, lowercase: bool) -> Counter[str]:
    """Count the words of some chunks."""
    counts = Counter[str]()
    for item in text.items(part):
        counts.update((lower_without_accents(item) if lowercase else item).split())
    return counts


def train_sentencepiece(items: Iterable[str], config: PreprocessConfig) -> bytes:
    """A model of at most vocab_size pieces."""
    return train_pieces(
        items,
        vocabulary_size=config.vocab_size,
        algorithm=config.sentencepiece_type,
        character_coverage=config.character_coverage,
        max_bytes=config.max_line_bytes,
    )

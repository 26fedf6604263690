"""The tokenizer of a data folder: given by an option, or trained on the training text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes
from toolkit.config.command import CHECKPOINT_LINKS
from toolkit.config.commands.preprocess import TOKENIZER_BY_OPTION, PreprocessConfig
from toolkit.config.declared import to_flag
from toolkit.config.values import locate_checkpoint
from toolkit.data.preprocessing.report import log_trained, log_training, log_word_counts
from toolkit.data.preprocessing.segmentation import estimate_bytes, plan_parts, read_items
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.text_files import FileChunk
from toolkit.data.tokenizers.huggingface import WordPieceTokenizer, train_word_pieces
from toolkit.data.tokenizers.offsets import (
    lower_without_accents,
    replace_line_breaks,
    split_long_words,
)
from toolkit.data.tokenizers.sentencepiece import OPTIONS, SentencePieceTokenizer, train_pieces
from toolkit.data.tokenizers.tokenizer import TOKENIZER_CONFIG_FILE, Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer

TEXT_FILE = "text.txt"


def choose_tokenizer(config: PreprocessConfig, text: TrainingText, pool: WorkerPool) -> Tokenizer:
    """The tokenizer that an option names, or one trained on the text."""
    if (given := load_given_tokenizer(config)) is not None:
        is_complete = len(set(given.vocabulary.special)) > 1
        return check_special(given, config, is_complete, "[CLS], [SEP] and [MASK]")
    if not text.parts:
        kinds = TOKENIZER_BY_OPTION.items()
        option = next(to_flag(name) for name, kind in kinds if kind == config.tokenizer_kind)
        raise ToolkitError(
            f"no training text to learn a vocabulary from. Give --trainpref, {option} or "
            f"--tokenizer-from."
        )
    return _TRAIN[config.tokenizer_kind](config, text, pool)


def choose_tokenizer_for_texts(
    config: PreprocessConfig, texts: Iterable[str], folder: Path, pool: WorkerPool
) -> Tokenizer:
    """The tokenizer of plain text that an option names, or one trained on the texts."""
    if (given := load_given_tokenizer(config)) is None:
        return train_on_texts(config, texts, folder, pool)
    is_complete = given.vocabulary.cls != given.vocabulary.pad
    return check_special(unwrap_tokenizer(given), config, is_complete, "[CLS] and [SEP]")


def check_special(
    tokenizer: Tokenizer, config: PreprocessConfig, is_complete: bool, required: str
) -> Tokenizer:
    """Raise unless a given tokenizer has the special tokens that the data requires."""
    if not is_complete:
        raise ToolkitError(
            f"the vocabulary must have {required}, but that of {config.tokenizer_from} has none. "
            f"Name another with --tokenizer-from, or leave it out to train one."
        )
    return tokenizer


def train_on_texts(
    config: PreprocessConfig, texts: Iterable[str], folder: Path, pool: WorkerPool
) -> Tokenizer:
    """Train on texts in memory, each as a line; their reader has checked their lengths."""
    path, max_line_bytes = folder / TEXT_FILE, config.max_line_bytes
    with path.open("wb") as file:
        for text in texts:
            line = replace_line_breaks(text).encode()
            max_line_bytes = max(max_line_bytes, len(line))
            file.write(line + b"\n")
    try:
        parts = plan_parts([path], "lines") if path.stat().st_size else []
        return choose_tokenizer(config, TrainingText(parts, "lines", max_line_bytes), pool)
    finally:
        path.unlink()


def load_given_tokenizer(config: PreprocessConfig) -> Tokenizer | None:
    """The tokenizer that an option names."""
    option = config.vocabulary_option
    return _LOAD[option](config) if option is not None else None


def _load_sentencepiece(c: PreprocessConfig) -> Tokenizer:
    try:
        model = read_bytes(Path(str(c.sentencepiece_model)))
    except OSError as error:
        raise ToolkitError(
            f"cannot read --sentencepiece-model {c.sentencepiece_model}: {error.strerror}."
        ) from error
    return _sentencepiece(model, c)


def _sentencepiece(model: bytes, c: PreprocessConfig) -> Tokenizer:
    return SentencePieceTokenizer(model, **{name: getattr(c, name) for name in OPTIONS})


_LOAD: dict[str, Callable[[PreprocessConfig], Tokenizer]] = {
    "sentencepiece_model": _load_sentencepiece,
    "srcdict": lambda c: WordLevelTokenizer.from_file(str(c.srcdict), lowercase=c.lowercase),
    "wordpiece_vocab": lambda c: WordPieceTokenizer.from_file(
        str(c.wordpiece_vocab), lowercase=c.lowercase
    ),
    "tokenizer_from": lambda c: Tokenizer.load(
        locate_checkpoint(
            Path(str(c.tokenizer_from)), *CHECKPOINT_LINKS, file=TOKENIZER_CONFIG_FILE
        )
        or Path(str(c.tokenizer_from))
    ),
}


def _sample(c: PreprocessConfig, text: TrainingText, pool: WorkerPool) -> Sequence[str]:
    if items := sample_text(text, c, pool):
        return items
    raise ToolkitError(
        f"trainpref must hold text, but {c.trainpref} has only blank lines. Give other files."
    )


def _train_sentencepiece(c: PreprocessConfig, text: TrainingText, pool: WorkerPool) -> Tokenizer:
    started, items = time.perf_counter(), _sample(c, text, pool)
    limited = replace(c, max_line_bytes=text.max_line_bytes)
    log_training("SentencePiece", items)
    tokenizer = _sentencepiece(train_sentencepiece(items, limited), c)
    log_trained("SentencePiece", tokenizer, c.vocab_size, time.perf_counter() - started)
    return tokenizer


def _train_wordpiece(c: PreprocessConfig, text: TrainingText, pool: WorkerPool) -> Tokenizer:
    started, items = time.perf_counter(), _sample(c, text, pool)
    log_training("WordPiece", items)
    symbols = train_word_pieces(
        items,
        vocab_size=c.vocab_size,
        character_coverage=c.character_coverage,
        lowercase=c.lowercase,
    )
    tokenizer = WordPieceTokenizer.from_symbols(symbols, lowercase=c.lowercase)
    log_trained("WordPiece", tokenizer, c.vocab_size, time.perf_counter() - started)
    return tokenizer


def _train_word_level(c: PreprocessConfig, text: TrainingText, pool: WorkerPool) -> Tokenizer:
    started, counts = time.perf_counter(), count_words(text, pool, lowercase=c.lowercase)
    tokenizer = WordLevelTokenizer.from_counts(
        counts, size=c.vocab_size, min_count=c.min_count, lowercase=c.lowercase
    )
    log_word_counts(counts, tokenizer, time.perf_counter() - started)
    return tokenizer


_TRAIN: dict[str, Callable[[PreprocessConfig, TrainingText, WorkerPool], Tokenizer]] = {
    "sentencepiece": _train_sentencepiece,
    "words": _train_word_level,
    "wordpiece": _train_wordpiece,
}


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

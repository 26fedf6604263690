"""The tokenizer of a data folder: given by the user, or learned from the training text."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.finetune_defaults import resolve_checkpoint_dir
from toolkit.data.preprocessing.binarize import PartTask
from toolkit.data.preprocessing.report import log_trained, log_training, log_word_counts
from toolkit.data.preprocessing.split_files import plan_parts
from toolkit.data.preprocessing.train_tokenizer import train_sentencepiece
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.text_files import FileChunk
from toolkit.data.tokenizers.sentencepiece import OPTIONS, SentencePieceTokenizer
from toolkit.data.tokenizers.tokenizer import TOKENIZER_CONFIG_FILE, Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.data.tokenizers.wordpiece import WordPieceTokenizer, train_word_pieces
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer

Parts = list[list[FileChunk]]


def choose_tokenizer(
    config: PreprocessConfig, tasks: list[PartTask], pool: WorkerPool
) -> Tokenizer:
    """The one that an option names, or one learned from the training text."""
    if (tokenizer := load_given_tokenizer(config)) is not None:
        if len(set(tokenizer.vocabulary.special)) == 1:  # one symbol plays all roles
            raise ToolkitError(
                f"the vocabulary must have [CLS], [SEP] and [MASK], but that of "
                f"{config.tokenizer_from} has none. Name another with --tokenizer-from, or leave "
                "it out "
                f"to learn one."
            )
        return tokenizer
    parts: Parts = [list(task.pieces) for task in tasks if task.split == "train"]
    if not parts:
        raise ToolkitError(
            f"a vocabulary must be learned from --trainpref, but there is none. Give text to train "
            f"on, {_OPTION[config.tokenizer_kind]} or --tokenizer-from."
        )
    return _LEARN[config.tokenizer_kind](config, parts, pool)


def load_given_tokenizer(config: PreprocessConfig) -> Tokenizer | None:
    """The one that an option names."""
    return (
        _GIVEN[config.vocabulary_option](config) if config.vocabulary_option is not None else None
    )


def _given_model(c: PreprocessConfig) -> Tokenizer:
    try:
        model = Path(str(c.sentencepiece_model)).read_bytes()
    except OSError as error:
        raise ToolkitError(
            f"sentencepiece_model must name a readable file, but {c.sentencepiece_model} "
            f"is not: {error.strerror}. Correct the path, or leave it out to train one."
        ) from error
    return SentencePieceTokenizer(model, **{name: getattr(c, name) for name in OPTIONS})


_GIVEN: dict[str, Callable[[PreprocessConfig], Tokenizer]] = {
    "sentencepiece_model": _given_model,
    "srcdict": lambda c: WordLevelTokenizer.from_file(str(c.srcdict), lowercase=c.lowercase),
    "wordpiece_vocab": lambda c: WordPieceTokenizer.from_file(
        str(c.wordpiece_vocab), lowercase=c.lowercase
    ),
    "tokenizer_from": lambda c: Tokenizer.load(
        resolve_checkpoint_dir(Path(str(c.tokenizer_from)), TOKENIZER_CONFIG_FILE)
    ),
}


def _sample(c: PreprocessConfig, parts: Parts, pool: WorkerPool) -> list[str]:
    if items := pool.sample(parts):
        return items
    raise ToolkitError(
        f"trainpref must hold text, but {c.trainpref} has only blank lines. Give other files."
    )


def _learn_sentence_pieces(c: PreprocessConfig, parts: Parts, pool: WorkerPool) -> Tokenizer:
    begin, items = time.perf_counter(), _sample(c, parts, pool)
    log_training("SentencePiece", items)
    tokenizer = SentencePieceTokenizer(
        train_sentencepiece(items, c), **{name: getattr(c, name) for name in OPTIONS}
    )
    log_trained("SentencePiece", tokenizer, c, time.perf_counter() - begin)
    return tokenizer


def _learn_word_pieces(c: PreprocessConfig, parts: Parts, pool: WorkerPool) -> Tokenizer:
    begin, items = time.perf_counter(), _sample(c, parts, pool)
    log_training("WordPiece", items)
    symbols = train_word_pieces(
        items,
        vocab_size=c.vocab_size,
        character_coverage=c.character_coverage,
        lowercase=c.lowercase,
    )
    tokenizer = WordPieceTokenizer.from_symbols(symbols, lowercase=c.lowercase)
    log_trained("WordPiece", tokenizer, c, time.perf_counter() - begin)
    return tokenizer


def _learn_words(c: PreprocessConfig, parts: Parts, pool: WorkerPool) -> Tokenizer:
    begin, counts = time.perf_counter(), Counter[str]()
    for found in pool.count_words(parts):
        counts.update(found)
    tokenizer = WordLevelTokenizer.from_counts(
        counts, size=c.vocab_size, min_count=c.min_count, lowercase=c.lowercase
    )
    log_word_counts(counts, tokenizer, time.perf_counter() - begin)
    return tokenizer


_LEARN: dict[str, Callable[[PreprocessConfig, Parts, WorkerPool], Tokenizer]] = {
    "sentencepiece": _learn_sentence_pieces,
    "words": _learn_words,
    "wordpiece": _learn_word_pieces,
}
_OPTION = {
    "sentencepiece": "a --sentencepiece-model",
    "words": "a --srcdict",
    "wordpiece": "a --wordpiece-vocab",
}


TEXT_FILE = "text.txt"


def choose_tokenizer_for_texts(
    config: PreprocessConfig, texts: Iterable[str], folder: Path, given: Tokenizer | None
) -> Tokenizer:
    """Without what a given one keeps beside its tokens, such as classes."""
    tokenizer = (
        train_tokenizer_on_texts(config, texts, folder)
        if given is None
        else unwrap_tokenizer(given)
    )
    words = tokenizer.vocabulary
    if words.cls == words.pad:
        raise ToolkitError(
            f"the vocabulary must have [CLS] and [SEP], but that of {config.tokenizer_from} has "
            "none. "
            f"Name another with --tokenizer-from, or leave it out to learn one."
        )
    return tokenizer


def train_tokenizer_on_texts(
    config: PreprocessConfig, texts: Iterable[str], folder: Path
) -> Tokenizer:
    """From texts of the training part, each a line; how long one may be, its reader has said."""
    path, tasks, most = folder / TEXT_FILE, list[PartTask](), config.max_line_bytes
    with path.open("wb") as file:
        for text in texts:
            line = replace_line_breaks(text).encode()
            most = max(most, len(line))
            file.write(line + b"\n")
    if path.stat().st_size:
        parts = plan_parts([path], "lines")
        tasks = [PartTask("train", number, part) for number, part in enumerate(parts)]
    config = replace(config, max_line_bytes=most)
    with WorkerPool(1, config) as pool:
        tokenizer = choose_tokenizer(config, tasks, pool)
    path.unlink()
    return tokenizer


def replace_line_breaks(text: str) -> str:
    """White space of any kind as spaces, one for each, so that no character changes its place.

    Halves of characters and NUL, which JSON can spell but no text holds, become replacements.
    """
    return re.sub("[\0\ud800-\udfff]", "\ufffd", re.sub(r"\s", " ", text))

"""The tokenizer of a data folder: given by an option, or trained on the training text."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes
from toolkit.config.command import CHECKPOINT_LINKS
from toolkit.config.commands.preprocess import TOKENIZER_BY_OPTION, PreprocessConfig
from toolkit.config.declared import to_flag
from toolkit.config.values import locate_checkpoint
from toolkit.data.preprocessing.input_files import estimate_bytes, plan_parts, read_items
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.records import MAX_ROW_BYTES
from toolkit.data.storage.meta import load_checked_tokenizer
from toolkit.data.text_files import FileChunk
from toolkit.data.tokenizers.huggingface import SPECIAL, WordPieceTokenizer
from toolkit.data.tokenizers.offsets import lower_without_accents, replace_line_breaks
from toolkit.data.tokenizers.sentencepiece import OPTIONS, SentencePieceTokenizer
from toolkit.data.tokenizers.tokenizer import (
    SYMBOLS_FILE,
    TOKENIZER_CONFIG_FILE,
    TRAINERS,
    Tokenizer,
    unwrap_tokenizer,
)
from toolkit.data.tokenizers.tokenizer_json import is_transformers, load_tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer


def choose_tokenizer(config: PreprocessConfig, text: TrainingText, pool: WorkerPool) -> Tokenizer:
    """The tokenizer that an option names, or one trained on the text."""
    if (given := load_given_tokenizer(config)) is not None:
        if given.vocabulary.cls == given.vocabulary.pad:  # as without special tokens
            raise ToolkitError(
                f"the vocabulary must have [CLS], [SEP] and [MASK], but that of "
                f"{config.tokenizer_from} has none. Name another one, or leave it out to train one."
            )
        return given
    if not text.parts and config.tokenizer_kind != "bytes":
        kinds = TOKENIZER_BY_OPTION.items()
        options = [to_flag(name) for name, kind in kinds if kind in (config.tokenizer_kind, None)]
        raise ToolkitError(
            f"no training text to learn a vocabulary from. Give --trainpref, "
            f"{' or '.join(options)}."
        )
    train = {"words": _train_words, "sentencepiece": _train_pieces, "wordpiece": _train_pieces}
    return train.get(config.tokenizer_kind, _train_library)(config, text, pool)


def choose_tokenizer_for_texts(
    config: PreprocessConfig, texts: Iterable[str], folder: Path, pool: WorkerPool
) -> Tokenizer:
    """The tokenizer of plain text that an option names, or one trained on these lines, whose
    lengths their reader has checked.
    """
    if config.vocabulary_option:
        return unwrap_tokenizer(choose_tokenizer(config, TrainingText((), "lines", 0), pool))
    path = folder / "text.txt"
    with path.open("wb") as file:
        file.writelines(replace_line_breaks(text).encode() + b"\n" for text in texts)
    try:
        parts = plan_parts([path], "lines") if path.stat().st_size else []
        return choose_tokenizer(config, TrainingText(parts, "lines", MAX_ROW_BYTES), pool)
    finally:
        path.unlink()


def load_given_tokenizer(c: PreprocessConfig) -> Tokenizer | None:
    """The tokenizer that an option names."""
    if (option := c.vocabulary_option) is None:
        return None
    path = Path(str(getattr(c, option)))
    if option == "srcdict":
        return WordLevelTokenizer.from_file(path, lowercase=c.lowercase)
    if option == "wordpiece_vocab":
        return WordPieceTokenizer.from_file(path, lowercase=c.lowercase)
    if option == "tokenizer_from":
        if not (path / SYMBOLS_FILE).exists() and is_transformers(path):
            return load_tokenizer(path)
        found = locate_checkpoint(path, *CHECKPOINT_LINKS, file=TOKENIZER_CONFIG_FILE)
        return load_checked_tokenizer(found or path)
    return SentencePieceTokenizer(read_bytes(path), **{it: getattr(c, it) for it in OPTIONS})


def _train_pieces(c: PreprocessConfig, text: TrainingText, pool: WorkerPool) -> Tokenizer:
    """SentencePiece or WordPiece; the training itself does not report progress."""
    started, items = time.perf_counter(), sample_text(text, c, pool)
    check_some(c, items)
    is_word_piece = c.tokenizer_kind == "wordpiece"
    what, characters = "WordPiece" if is_word_piece else "SentencePiece", sum(map(len, items))
    _log(f"training {what} on {len(items):,} items, {characters / 1e6:.1f} M characters")
    options: dict[str, object] = {
        "lowercase": c.lowercase,
        "vocabulary_size": c.vocab_size,
        "character_coverage": c.character_coverage,
    }
    if not is_word_piece:
        options |= {"algorithm": c.sentencepiece_type, "split_digit_commas": c.split_digit_commas}
    train: Callable[..., Tokenizer] = resolve_name(TRAINERS[c.tokenizer_kind])
    tokenizer = train(items, **options)
    pieces = len(tokenizer.vocabulary) - 4 - is_word_piece  # special ones; [UNK] is one of them
    short = f"; the text has no more, {c.vocab_size} were requested"
    seconds = time.perf_counter() - started
    _log(f"trained {pieces} {what} pieces in {seconds:.1f} s{short * (pieces < c.vocab_size)}")
    return tokenizer


def check_some(c: PreprocessConfig, items: Collection[str] | Mapping[str, int]) -> None:
    """Raise if no text was found."""
    if not items:
        raise ToolkitError(f"trainpref must hold text, but {c.trainpref} has only blank lines.")


def _train_library(c: PreprocessConfig, text: TrainingText, pool: WorkerPool) -> Tokenizer:
    """Byte-level BPE, bytes or characters; the text is read once and not kept."""
    started, seen = time.perf_counter(), Counter[str]()

    def read() -> Iterator[str]:
        for item in chain.from_iterable(map(text.items, text.parts)):
            seen.update(items=1, characters=len(item))
            yield item

    train: Callable[..., Tokenizer] = resolve_name(TRAINERS[c.tokenizer_kind])
    tokenizer = train(read(), vocabulary_size=c.vocab_size, lowercase=c.lowercase)
    if c.tokenizer_kind != "bytes":
        check_some(c, seen)
    _log(
        f"trained {len(tokenizer.vocabulary) - len(SPECIAL):,} {c.tokenizer_kind} tokens on "
        f"{seen['items']:,} items, {seen['characters'] / 1e6:.1f} M characters, in "
        f"{time.perf_counter() - started:.1f} s"
    )
    return tokenizer


def _train_words(c: PreprocessConfig, text: TrainingText, pool: WorkerPool) -> Tokenizer:
    started, counts = time.perf_counter(), Counter[str]()
    for _, found in pool.imap(partial(count_part, text=text, lowercase=c.lowercase), text.parts):
        counts.update(found)
    tokenizer = WordLevelTokenizer.from_counts(
        counts, size=c.vocab_size, min_count=c.min_count, lowercase=c.lowercase
    )
    words, seconds = tokenizer.vocabulary, time.perf_counter() - started
    reserved = (*words.special, words.unk)
    kept = [symbol for i, symbol in enumerate(words.symbols) if i not in reserved]
    total, known = counts.total(), sum(counts[word] for word in kept)
    _log(
        f"counted {total:,} words, {len(counts):,} different ones, in {seconds:.1f} s; the "
        f"{len(kept):,} kept are {known / max(1, total):.2%} of the text"
    )
    return tokenizer


def _log(message: str) -> None:
    print(message, file=sys.stderr)


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
    """Items to learn pieces from, spread evenly: about `sentencepiece_megabytes`, at least one."""
    size = sum(estimate_bytes(chunk) for part in text.parts for chunk in part)
    limit = config.sentencepiece_megabytes * 1e6
    fraction = min(1.0, limit / size) if limit else 1.0
    while True:
        sample = partial(sample_items, text=text, fraction=fraction)
        items = [item for _, part in pool.imap(sample, text.parts) for item in part]
        if items or fraction == 1:
            return items
        fraction = min(1.0, 2 * fraction)


def sample_items(part: Sequence[FileChunk], text: TrainingText, fraction: float) -> list[str]:
    """A fraction of the items of one part, evenly spread."""
    items = enumerate(text.items(part))
    return [it for number, it in items if int((number + 1) * fraction) > int(number * fraction)]


def count_part(part: Sequence[FileChunk], text: TrainingText, lowercase: bool) -> Counter[str]:
    """Count the words of some chunks."""
    counts = Counter[str]()
    for item in text.items(part):
        counts.update((lower_without_accents(item) if lowercase else item).split())
    return counts

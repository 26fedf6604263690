"""The codec of a data folder: given by the user, or learnt from the training text."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.finetune_defaults import checkpoint_of
from toolkit.data.preprocessing.binarize import PartTask
from toolkit.data.preprocessing.report import counted, trained, training
from toolkit.data.preprocessing.split_files import plan_parts
from toolkit.data.preprocessing.train_tokenizer import train
from toolkit.data.preprocessing.workers import Workers
from toolkit.data.text_files import Piece
from toolkit.data.tokenizers.sentencepiece import OPTIONS, SentencePieces
from toolkit.data.tokenizers.tokenizer import CODEC_FILE, Codec
from toolkit.data.tokenizers.word_level import Dictionary
from toolkit.data.tokenizers.wordpiece import WordPieces, train_word_pieces
from toolkit.data.tokenizers.wrapped import bare

Parts = list[list[Piece]]


def codec_for(config: PreprocessConfig, tasks: list[PartTask], pool: Workers) -> Codec:
    """The one that an option names, or one learnt from the training text."""
    if (codec := given_codec(config)) is not None:
        if len(set(codec.vocabulary.special)) == 1:  # one symbol plays all roles
            raise ToolkitError(
                f"the vocabulary must have [CLS], [SEP] and [MASK], but that of "
                f"{config.codec_from} has none. Name another with --codec-from, or leave it out "
                f"to learn one."
            )
        return codec
    parts: Parts = [list(task.pieces) for task in tasks if task.split == "train"]
    if not parts:
        raise ToolkitError(
            f"a vocabulary must be learnt from --trainpref, but there is none. Give text to train "
            f"on, {_OPTION[config.kind]} or --codec-from."
        )
    return _LEARN[config.kind](config, parts, pool)


def given_codec(config: PreprocessConfig) -> Codec | None:
    """The one that an option names."""
    return _GIVEN[config.given](config) if config.given is not None else None


def _given_model(c: PreprocessConfig) -> Codec:
    try:
        model = Path(str(c.sentencepiece_model)).read_bytes()
    except OSError as error:
        raise ToolkitError(
            f"sentencepiece_model must name a readable file, but {c.sentencepiece_model} "
            f"is not: {error.strerror}. Correct the path, or leave it out to train one."
        ) from error
    return SentencePieces(model, **{name: getattr(c, name) for name in OPTIONS})


_GIVEN: dict[str, Callable[[PreprocessConfig], Codec]] = {
    "sentencepiece_model": _given_model,
    "srcdict": lambda c: Dictionary.read(str(c.srcdict), lowercase=c.lowercase),
    "wordpiece_vocab": lambda c: WordPieces.read(str(c.wordpiece_vocab), lowercase=c.lowercase),
    "codec_from": lambda c: Codec.load(checkpoint_of(Path(str(c.codec_from)), CODEC_FILE)),
}


def _sample(c: PreprocessConfig, parts: Parts, pool: Workers) -> list[str]:
    if items := pool.sample(parts):
        return items
    raise ToolkitError(
        f"trainpref must hold text, but {c.trainpref} has only blank lines. Give other files."
    )


def _learn_sentence_pieces(c: PreprocessConfig, parts: Parts, pool: Workers) -> Codec:
    begin, items = time.perf_counter(), _sample(c, parts, pool)
    training("SentencePiece", items)
    codec = SentencePieces(train(items, c), **{name: getattr(c, name) for name in OPTIONS})
    trained("SentencePiece", codec, c, time.perf_counter() - begin)
    return codec


def _learn_word_pieces(c: PreprocessConfig, parts: Parts, pool: Workers) -> Codec:
    begin, items = time.perf_counter(), _sample(c, parts, pool)
    training("WordPiece", items)
    codec = WordPieces.of(train_word_pieces(items, c), lowercase=c.lowercase)
    trained("WordPiece", codec, c, time.perf_counter() - begin)
    return codec


def _learn_words(c: PreprocessConfig, parts: Parts, pool: Workers) -> Codec:
    begin, counts = time.perf_counter(), Counter[str]()
    for found in pool.count_words(parts):
        counts.update(found)
    codec = Dictionary.build(
        counts, size=c.vocab_size, min_count=c.min_count, lowercase=c.lowercase
    )
    counted(counts, codec, time.perf_counter() - begin)
    return codec


_LEARN: dict[str, Callable[[PreprocessConfig, Parts, Workers], Codec]] = {
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


def codec_of_texts(
    config: PreprocessConfig, texts: Iterable[str], folder: Path, given: Codec | None
) -> Codec:
    """Without what a given one keeps beside its tokens, such as classes."""
    codec = learnt(config, texts, folder) if given is None else bare(given)
    words = codec.vocabulary
    if words.cls == words.pad:
        raise ToolkitError(
            f"the vocabulary must have [CLS] and [SEP], but that of {config.codec_from} has none. "
            f"Name another with --codec-from, or leave it out to learn one."
        )
    return codec


def learnt(config: PreprocessConfig, texts: Iterable[str], folder: Path) -> Codec:
    """From texts of the training part, each a line; how long one may be, its reader has said."""
    path, tasks, most = folder / TEXT_FILE, list[PartTask](), config.max_line_bytes
    with path.open("wb") as file:
        for text in texts:
            line = in_one_line(text).encode()
            most = max(most, len(line))
            file.write(line + b"\n")
    if path.stat().st_size:
        parts = plan_parts([path], "lines")
        tasks = [PartTask("train", number, part) for number, part in enumerate(parts)]
    config = replace(config, max_line_bytes=most)
    with Workers(1, config) as pool:
        codec = codec_for(config, tasks, pool)
    path.unlink()
    return codec


def in_one_line(text: str) -> str:
    """White space of any kind as spaces, one for each, so that no character changes its place.

    Halves of characters and NUL, which JSON can spell but no text holds, become replacements.
    """
    return re.sub("[\0\ud800-\udfff]", "\ufffd", re.sub(r"\s", " ", text))

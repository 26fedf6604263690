"""Tokenizers: text to ids and back; those that add labels, tags or a second language to another."""

from __future__ import annotations

import base64
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np

from toolkit.common.arrays import IntArray, UInt8, pack_rows
from toolkit.common.errors import ToolkitError
from toolkit.common.files import is_inside, read_bytes
from toolkit.common.json_files import (
    Count,
    FilePath,
    JsonObject,
    convert,
    decode,
    name_file,
    read_json,
    write_json,
)
from toolkit.data.tokenizers.offsets import (
    TokenOffsets,
    TokenSpan,
    WordCache,
    clean_texts,
    count_word_starts,
    locate_words,
    lower_without_accents,
    pack_token_offsets,
)
from toolkit.data.tokenizers.vocabulary import Vocabulary, read_symbols, write_symbols

TOKENIZER_CONFIG_FILE, SYMBOLS_FILE = "tokenizer_config.json", "dict.txt"
TOOLKIT_TOKENIZER_FILE = "toolkit_tokenizer.json"
"""All files of a tokenizer in one, which exported models carry along."""
MASK = "[MASK]"  # accepted as the mask in any text, whatever the vocabulary calls it
KINDS = {
    "sentencepiece": "toolkit.data.tokenizers.sentencepiece:SentencePieceTokenizer",
    "words": "toolkit.data.tokenizers.word_level:WordLevelTokenizer",
    "wordpiece": "toolkit.data.tokenizers.huggingface:WordPieceTokenizer",
    "huggingface": "toolkit.data.tokenizers.huggingface:HuggingFaceTokenizer",
    "classification": "toolkit.data.formats.classification.split:ClassificationTokenizer",
    "parallel": "toolkit.data.tokenizers.tokenizer:ParallelTokenizer",
    "tagging": "toolkit.data.formats.tagging.tokenizer:TaggingTokenizer",
}
TRAINERS = {
    **{kind: f"{KINDS[kind]}._train" for kind in ("sentencepiece", "wordpiece", "words")},
    "bpe": "toolkit.data.tokenizers.huggingface:train_byte_pairs",
    "bytes": "toolkit.data.tokenizers.huggingface:train_bytes",
    "characters": "toolkit.data.tokenizers.huggingface:train_characters",
}
"""What may be trained -> the function that does it."""
MIN_VOCABULARY_SIZE = 4
REMEDY = "Run toolkit-preprocess again."

LanguagePair = tuple[str, str]
PLUGIN_KINDS: dict[str, type[Tokenizer]] = {}
"""Tokenizers of plugins, which their definition adds."""


class Tokenizer(ABC):
    """A vocabulary and the rules that turn text into its ids.

    Data folders and checkpoints carry one. `kind` in tokenizer_config.json says which subclass.
    """

    kind: ClassVar[str]
    files: tuple[str, ...] = (SYMBOLS_FILE, TOKENIZER_CONFIG_FILE)
    """The files that `save` writes."""
    word_by_word = True
    """Whether the segmentation of a line is the segmentation of its words in order."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind = cls.__dict__.get("kind")
        if isinstance(kind, str) and kind not in KINDS:
            PLUGIN_KINDS[kind] = cls

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool) -> None:
        self.vocabulary, self.lowercase = vocabulary, lowercase
        self.target: Tokenizer = self
        """The tokenizer of generated text."""
        self.language_pair: LanguagePair | None = None
        """The languages of parallel text; None for text in one language."""
        self.columns: dict[str, str] = {}
        """Part of an item, such as `sentence` -> its column in the rows of the training data."""

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Ids of all lines back to back, and the number of ids per line; no special tokens."""
        if self.word_by_word:
            return self._words.encode_lines(lines)[:2]
        return pack_rows(self._segment(lines))

    def encode_counting_words(self, lines: Sequence[str]) -> tuple[IntArray, IntArray, UInt8]:
        """`encode_lines`, and the number of words (as of `wc -w`) that start in each token."""
        if self.word_by_word and type(self).encode_lines is Tokenizer.encode_lines:
            return self._words.encode_lines(lines)
        ids, lengths, starts, _ = self.encode_with_offsets(lines)
        line_starts = np.cumsum([0, *(len(line) + 1 for line in lines)])
        starts = starts + np.repeat(line_starts[:-1], lengths)
        words = np.array([word.start() for word in re.finditer(r"\S+", "\n".join(lines))], np.int64)
        line_of = np.searchsorted(line_starts, words, side="right") - 1
        tokens = np.searchsorted(starts, words, side="right") - 1
        return ids, lengths, count_word_starts(tokens, line_of, lengths, np.ones_like(words))

    @cached_property
    def _words(self) -> WordCache:
        return WordCache(self._segment)

    def _segment(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each word, or of each line if lines are not tokenized word by word."""
        raise NotImplementedError

    @abstractmethod
    def _decode(self, ids: Sequence[int]) -> str:
        """Text of ids without special tokens."""

    @classmethod
    @abstractmethod
    def _restore(cls, folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer: ...

    @staticmethod
    def train(
        texts: Iterable[str],
        *,
        kind: str = "sentencepiece",
        vocabulary_size: int = 30000,
        lowercase: bool = False,
    ) -> Tokenizer:
        """Train a tokenizer on all of the texts, as toolkit-preprocess does on lines.

        `kind` is sentencepiece (a unigram model), wordpiece (BERT's subwords), bpe (GPT-2's
        byte-level subwords), words, characters or bytes. `vocabulary_size` is the maximum number of
        these without special tokens. With `lowercase`, text is read in lower case without accents.
        """
        if kind not in TRAINERS:
            raise ToolkitError(f"kind must be one of {', '.join(TRAINERS)}, but is {kind!r}.")
        if vocabulary_size < MIN_VOCABULARY_SIZE:
            raise ToolkitError(
                f"vocabulary_size must be at least {MIN_VOCABULARY_SIZE}, but is {vocabulary_size}."
            )
        train: Callable[..., Tokenizer] = resolve_name(TRAINERS[kind])
        return train(clean_texts(texts), vocabulary_size=vocabulary_size, lowercase=lowercase)

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        """The ids of `encode_lines`, each with the characters of its line that it covers."""
        if self.word_by_word:
            return locate_words(self._spans, lines)
        return pack_token_offsets([self._locate(line) for line in lines])

    @cached_property
    def _spans(self) -> WordCache:
        return WordCache(lambda words: [[*chain.from_iterable(self._locate(w))] for w in words])

    def _locate(self, text: str) -> list[TokenSpan]:
        """The tokens of a word with their spans, or of a line."""
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """Ids of the text, without special tokens."""
        return self.encode_lines([text])[0].tolist()

    def encode_words(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Like `encode_lines`, for words that follow another word of their sentence."""
        return self.encode_lines(words)

    def _encode_after_special(self, text: str, special: int) -> list[int]:
        """Ids of text right after this special token."""
        return self.encode(text)

    def encode_parsing_special(self, text: str) -> list[int]:
        """Like `encode`, but special tokens in the text, and [MASK], become their ids."""
        symbols, mask = self.vocabulary.symbols, self.vocabulary.mask
        names = {MASK: mask, **{symbols[i]: i for i in self.vocabulary.roles.values()}}
        first, *rest = re.split("(" + "|".join(map(re.escape, names)) + ")", text)
        ids = self.encode(first)
        for name, part in zip(rest[::2], rest[1::2], strict=True):
            ids += [names[name], *self._encode_after_special(part, names[name])]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids, with special tokens by name between spaces."""
        symbols, special = self.vocabulary.symbols, set(self.vocabulary.special)
        words = []
        for is_special, group in groupby(ids, special.__contains__):
            run = list(group)
            words += [symbols[i] for i in run] if is_special else [self._decode(run)]
        return " ".join(words)

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Input vocabulary as "tokens"; parallel text adds the vocabulary of its "targets"."""
        return {"tokens": self.vocabulary}

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the tables that a model needs for these ids."""
        return {name: len(vocabulary) for name, vocabulary in self.vocabularies().items()}

    @property
    def fingerprint(self) -> str:
        """Changes when ids change their meaning."""
        return " ".join(vocabulary.fingerprint for vocabulary in self.vocabularies().values())

    def describe_difference(self, other: Tokenizer) -> str:
        """Why ids of `other` cannot be used in place of these; empty if they can."""
        return "" if self.fingerprint == other.fingerprint else "their vocabularies differ"

    def normalize(self, text: str) -> str:
        """The text in lower case without accents if the tokenizer is uncased."""
        return lower_without_accents(text) if self.lowercase else text

    def settings(self) -> JsonObject:
        """The contents of tokenizer_config.json."""
        return {
            "kind": self.kind,
            "lowercase": self.lowercase,
            "special": self.vocabulary.roles,
            **({"columns": self.columns} if self.columns else {}),
        }

    def label_settings(self) -> JsonObject:
        """What a config.json of Transformers says of the labels; empty without any."""
        return {}

    def save(self, folder: Path | str) -> None:
        """Write dict.txt and tokenizer_config.json; subclasses add their own files."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SYMBOLS_FILE).write_bytes(write_symbols(self.vocabulary.symbols).encode())
        write_json(folder / TOKENIZER_CONFIG_FILE, self.settings(), indent=2)

    @staticmethod
    def load(folder: Path | str) -> Tokenizer:
        """The tokenizer of a data folder or a checkpoint, of any kind."""
        folder = Path(folder)
        try:
            settings = read_json(folder / TOKENIZER_CONFIG_FILE, JsonObject, REMEDY)
            symbols = read_symbols(read_bytes(folder / SYMBOLS_FILE).decode())
            settings["special"] = convert(settings["special"], dict[str, Count])
            found = find_tokenizer_class(settings["kind"], folder)
            tokenizer = found._restore(folder, settings, symbols)
            tokenizer.columns = convert(settings.get("columns", {}), dict[str, str])
            return tokenizer
        except ToolkitError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ToolkitError(
                f"{folder} must hold the files of a tokenizer, but does not ({error}). {REMEDY}"
            ) from error


def find_tokenizer_class(kind: object, folder: Path) -> type[Tokenizer]:
    """The class of this kind, imported when first needed; `folder` is named in errors."""
    if isinstance(kind, str) and kind in PLUGIN_KINDS:
        return PLUGIN_KINDS[kind]
    if not isinstance(kind, str) or kind not in KINDS:
        raise ToolkitError(
            f"the kind in {folder / TOKENIZER_CONFIG_FILE} must be one of "
            f"{', '.join([*KINDS, *PLUGIN_KINDS])}, but is {kind!r}. Pass the folder of its plugin "
            f"with --user-dir. If a newer toolkit wrote it, upgrade, or run toolkit-preprocess "
            f"again."
        )
    tokenizer_class: type[Tokenizer] = resolve_name(KINDS[kind])
    return tokenizer_class


def pack_tokenizer(tokenizer: Tokenizer) -> bytes:
    """The contents of TOOLKIT_TOKENIZER_FILE: the files of a tokenizer as base64 by their names."""
    with TemporaryDirectory() as folder:
        tokenizer.save(folder)
        files = {
            path.relative_to(folder).as_posix(): base64.b64encode(path.read_bytes()).decode()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        }
    return (json.dumps(files, indent=1) + "\n").encode()


def unpack_tokenizer(content: bytes) -> Tokenizer:
    """The tokenizer that `pack_tokenizer` wrote; names with folders above are errors."""
    remedy = "Export the model again."
    with name_file(Path(TOOLKIT_TOKENIZER_FILE), remedy):
        files = decode(content, dict[FilePath, bytes])
    with TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder, name)
            if not is_inside(path, Path(folder)):
                raise ToolkitError(f"{TOOLKIT_TOKENIZER_FILE} must not hold {name}. {remedy}")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        return Tokenizer.load(folder)


TARGET = "target"
"""The subfolder with the tokenizer of the target language."""


class WrappedTokenizer(Tokenizer):
    """Reads text as `inner` does; `more_files` are the files that the subclass adds."""

    def __init__(self, inner: Tokenizer, *more_files: str) -> None:
        super().__init__(inner.vocabulary, lowercase=inner.lowercase)
        self.inner = inner
        self.files = (*inner.files, *more_files)

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray]:
        return self.inner.encode_lines(lines)

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        return self.inner.encode_with_offsets(lines)

    def encode_parsing_special(self, text: str) -> list[int]:
        return self.inner.encode_parsing_special(text)

    def _decode(self, ids: Sequence[int]) -> str:
        return self.inner._decode(ids)

    def settings(self) -> JsonObject:
        return {**super().settings(), "inner": self.inner.settings()}

    def save(self, folder: Path | str) -> None:
        """Write the files of `inner`, with this tokenizer's own tokenizer_config.json."""
        self.inner.save(folder)
        super().save(folder)


def name_labels(names: Sequence[str]) -> JsonObject:
    """id2label and label2id of Transformers, from the names in order of their ids."""
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }


def unwrap_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of plain text, without labels, tags or a second language."""
    while isinstance(tokenizer, WrappedTokenizer):
        tokenizer = tokenizer.inner
    return tokenizer


def restore_inner(folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
    """The inner tokenizer, from what `settings` wrote."""
    inner = {**settings["inner"], "special": settings["special"]}
    return find_tokenizer_class(inner.get("kind"), folder)._restore(folder, inner, symbols)


class ParallelTokenizer(WrappedTokenizer):
    """Reads source text as `inner` does, and the other language as `target`, or as `inner` too."""

    kind = "parallel"

    def __init__(
        self, inner: Tokenizer, target: Tokenizer | None, *, source_lang: str, target_lang: str
    ) -> None:
        super().__init__(inner, *(f"{TARGET}/{name}" for name in (target.files if target else ())))
        self.joined, self.target = target is None, target or inner
        self.source_lang, self.target_lang = self.language_pair = source_lang, target_lang
        self.languages = f"{source_lang}-{target_lang}"

    def vocabularies(self) -> dict[str, Vocabulary]:
        return {**super().vocabularies(), "targets": self.target.vocabulary}

    def describe_difference(self, other: Tokenizer) -> str:
        """Names of languages count only if they are swapped: `de` and `ger` may be the same."""
        others = other.language_pair or ()
        if (self.target_lang, self.source_lang) == others != self.language_pair:
            return f"one translates {self.languages}, the other {'-'.join(others)}"
        return super().describe_difference(other)

    def settings(self) -> JsonObject:
        languages = {"source_lang": self.source_lang, "target_lang": self.target_lang}
        return {**super().settings(), **languages, "joined": self.joined}

    def save(self, folder: Path | str) -> None:
        super().save(folder)
        if not self.joined:
            (own := Path(folder) / TARGET).mkdir(exist_ok=True)
            self.target.save(own)

    @classmethod
    def _restore(cls, folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
        target = None if settings["joined"] is True else Tokenizer.load(folder / TARGET)
        if isinstance(target, WrappedTokenizer):
            raise ValueError(f"{TARGET} must hold a tokenizer of plain text")
        languages = {name: str(settings[name]) for name in ("source_lang", "target_lang")}
        return cls(restore_inner(folder, settings, symbols), target, **languages)

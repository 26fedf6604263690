"""Tokenizers by the package tokenizers: BERT's WordPiece, bytes, and those of a tokenizer.json."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer as HfTokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes
from toolkit.common.json_files import JsonObject
from toolkit.data.text_files import read_text
from toolkit.data.tokenizers.offsets import TokenOffsets, TokenSpan, split_long_words, trim_span
from toolkit.data.tokenizers.tokenizer import MASK, SYMBOLS_FILE, TOKENIZER_CONFIG_FILE, Tokenizer
from toolkit.data.tokenizers.vocabulary import (
    MARKS,
    SPACE,
    SPACE_BYTE,
    WORD_REST,
    Vocabulary,
    uses_mark,
)

TOKENIZER_FILE = "tokenizer.json"
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
MAX_WORD_CHARACTERS = 100  # longer words are unknown, as in BERT
STDERR = 2
TRIAL = " ".join(map(chr, [*range(1, 0x250), *range(0x250, 0xD800, 0x100), 0x1F600]))
"""Text that shows whether a tokenizer can encode: of many alphabets, and all lengths in UTF-8."""


class LibraryTokenizer(Tokenizer):
    """Subwords and offsets by the package tokenizers, text by text: its batches start threads."""

    backend: HfTokenizer

    def _segment(self, texts: Sequence[str]) -> list[list[int]]:
        with library_errors():
            return [self.backend.encode(text, add_special_tokens=False).ids for text in texts]

    def _locate(self, text: str) -> list[TokenSpan]:
        with library_errors():
            encoded = self.backend.encode(text, add_special_tokens=False)
        spans = (trim_span(text, span) for span in encoded.offsets)
        return [(token, *span) for token, span in zip(encoded.ids, spans, strict=True)]

    def _decode(self, ids: Sequence[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=False).strip()

    def _encode_word_rest(self, backend: HfTokenizer, text: str) -> list[int]:
        """Ids of text whose first word, of letters and digits, continues the word before it."""
        encoding, normalizer = backend.encode(text, add_special_tokens=False), backend.normalizer
        start, end = encoding.word_to_chars(0) or (0, 0)
        word = normalizer.normalize_str(text[:end]) if normalizer else text[:end]
        if start or not word[:1].isalnum():
            return encoding.ids
        others = (i for i, number in zip(encoding.ids, encoding.word_ids, strict=True) if number)
        return [*(token.id for token in self._rest_model.tokenize(word)), *others]

    @cached_property
    def _rest_model(self) -> models.WordPiece:
        """The pieces with ##, which here also begin a word."""
        pieces = {s: i for s, i in self.backend.get_vocab().items() if s.startswith(WORD_REST)}
        first = {piece.removeprefix(WORD_REST): i for piece, i in pieces.items()}
        return word_piece_model({**first, **pieces, SPECIAL["unk"]: self.vocabulary.unk})


def word_piece_model(ids: dict[str, int]) -> models.WordPiece:
    """BERT's model with these pieces."""
    unknown, limit = SPECIAL["unk"], MAX_WORD_CHARACTERS
    return models.WordPiece(ids, unk_token=unknown, max_input_chars_per_word=limit)


class WordPieceTokenizer(LibraryTokenizer):
    """The longest matching piece first, left to right in each word (Devlin et al. 2019, code).

    Text is cleaned and split at white space, at punctuation and around each Chinese character;
    lower-casing also drops accents. Special tokens spelled out in the text are ordinary text.
    """

    kind = "wordpiece"

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool) -> None:
        super().__init__(vocabulary, lowercase=lowercase)
        ids = {symbol: i for i, symbol in enumerate(vocabulary.symbols)}
        self.backend = HfTokenizer(word_piece_model(ids))
        self.backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        self.backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        self.backend.decoder = decoders.WordPiece()

    @classmethod
    def from_file(cls, path: Path | str, *, lowercase: bool) -> WordPieceTokenizer:
        """BERT's vocab.txt: line i is piece i."""
        path, line_of = Path(path), dict[str, int]()
        lines = read_text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
        for number, symbol in enumerate(lines, 1):
            if not symbol.strip() or symbol in line_of:
                found = f"that of line {line_of[symbol]}" if symbol in line_of else "a blank line"
                raise ToolkitError(
                    f"{path}:{number}: expected a new piece, found {found}. Give the vocab.txt of "
                    f"a BERT model."
                )
            line_of[symbol] = number
        if missing := [name for name in SPECIAL.values() if name not in line_of]:
            raise ToolkitError(
                f"{path} must list {', '.join(SPECIAL.values())}, but {', '.join(missing)} is "
                f"missing. Give the vocab.txt of a BERT model."
            )
        return cls.from_symbols(list(line_of), lowercase=lowercase)

    @classmethod
    def from_symbols(cls, symbols: Sequence[str], *, lowercase: bool) -> WordPieceTokenizer:
        """From pieces in order of their ids, with the special tokens under BERT's names."""
        roles = {role: symbols.index(name) for role, name in SPECIAL.items()}
        return cls(
            Vocabulary(symbols, mark=WORD_REST, has_words=True, **roles), lowercase=lowercase
        )

    @classmethod
    def _train(
        cls,
        lines: Sequence[str],
        *,
        vocabulary_size: int,
        lowercase: bool,
        character_coverage: float = 0.9995,
    ) -> WordPieceTokenizer:
        symbols = train_word_pieces(
            [*map(split_long_words, lines)],
            vocab_size=vocabulary_size,
            character_coverage=character_coverage,
            lowercase=lowercase,
        )
        return cls.from_symbols(symbols, lowercase=lowercase)

    def _encode_after_special(self, text: str, special: int) -> list[int]:
        """A letter right after a mask continues the word with ##."""
        is_mask = special == self.vocabulary.mask
        return self._encode_word_rest(self.backend, text) if is_mask else self.encode(text)

    @classmethod
    def _restore(cls, folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
        vocabulary = Vocabulary(symbols, mark=WORD_REST, **settings["special"])
        return cls(vocabulary, lowercase=bool(settings["lowercase"]))


class HuggingFaceTokenizer(LibraryTokenizer):
    """Normalization, pieces and ids as described in a tokenizer.json.

    Special tokens spelled out in the text are ordinary text or unknown, so text never pads or ends
    a sentence. `rows` is the number of symbols of the model: ids that the tokenizer lacks get
    names that no text contains, and its ids beyond the model's are unknown.
    """

    kind = "huggingface"
    files = (SYMBOLS_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE)
    word_by_word = False

    def __init__(self, text: str, roles: Mapping[str, int], *, rows: int | None = None) -> None:
        self.text, self.backend = text, build_tokenizer(text)
        self.backend.encode_special_tokens = True
        ids = self.backend.get_vocab(with_added_tokens=True)
        count = max(ids.values(), default=-1) + 1 if rows is None else rows
        names = {number: symbol for symbol, number in ids.items()}
        symbols = [names.get(number, f"[no symbol {number}]") for number in range(count)]
        ordinary = [symbol for i, symbol in enumerate(symbols) if i not in roles.values()]
        # the mark of most symbols, since any may also be an ordinary letter; empty if none is used
        marks = [it for it in MARKS if uses_mark(ordinary, it)]
        mark = max(marks, key=lambda it: sum(s.startswith(it) for s in ordinary), default="")
        has_words = isinstance(self.backend.model, models.WordLevel)
        vocabulary = Vocabulary(symbols, mark=mark, has_words=has_words, **roles)
        super().__init__(vocabulary, lowercase=False)

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray]:
        ids, lengths = super().encode_lines(lines)
        return self._replace_unknown(ids), lengths

    def encode_words(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Byte-level pieces include the space before a word."""
        space = " " if self.vocabulary.mark == SPACE_BYTE else ""
        return self.encode_lines([space + word for word in words])

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        offsets = super().encode_with_offsets(lines)
        return offsets._replace(ids=self._replace_unknown(offsets.ids))

    def _replace_unknown(self, ids: IntArray) -> IntArray:
        """The unknown id for ids that the model lacks, and for special ids, which are not text."""
        unknown = (ids >= len(self.vocabulary)) | np.isin(ids, self.vocabulary.special)
        return np.where(unknown, self.vocabulary.unk, ids)

    def encode_parsing_special(self, text: str) -> list[int]:
        """As in Transformers, but a letter right after a mask continues the word with ##, and so
        does a character.
        """
        if self.vocabulary.mark == SPACE:
            return super().encode_parsing_special(text)
        mask, unknown = self.vocabulary.mask, self.vocabulary.unk
        name, continues = self.vocabulary.symbols[mask], self.vocabulary.mark == WORD_REST
        text = text.replace(MASK, name)
        first, *rest = text.split(name) if continues else [text]
        ids = self._parser.encode(first, add_special_tokens=False).ids
        for part in rest:
            ids += [mask, *self._encode_word_rest(self._parser, part)]
        return [i if i < len(self.vocabulary) else unknown for i in ids]

    def _encode_after_special(self, text: str, special: int) -> list[int]:
        """Characters without the space before the first word."""
        return self.encode(text)[1:]

    @cached_property
    def _parser(self) -> HfTokenizer:
        """The tokenizer with its special tokens, and how they absorb the spaces around them."""
        parser = build_tokenizer(self.text)
        known = {token.content for token in parser.get_added_tokens_decoder().values()}
        names = {self.vocabulary.symbols[i] for i in self.vocabulary.roles.values()} - known
        parser.add_special_tokens([AddedToken(name, normalized=False) for name in sorted(names)])
        return parser

    def settings(self) -> JsonObject:
        return {**super().settings(), "rows": len(self.vocabulary)}

    def save(self, folder: Path | str) -> None:
        """Write dict.txt, tokenizer_config.json and tokenizer.json."""
        super().save(folder)
        (Path(folder) / TOKENIZER_FILE).write_text(self.text, encoding="utf-8", newline="\n")

    @classmethod
    def _restore(cls, folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
        text = read_bytes(folder / TOKENIZER_FILE).decode()
        tokenizer = cls(text, settings["special"], rows=int(settings["rows"]))
        if list(symbols) != tokenizer.vocabulary.symbols:
            raise ToolkitError(
                f"{folder / SYMBOLS_FILE} must list the symbols of {TOKENIZER_FILE}, but differs. "
                f"One of them was replaced: convert the model again."
            )
        return tokenizer


@contextmanager
def library_errors() -> Iterator[None]:
    """Turn errors and panics of the package tokenizers into one line."""
    try:
        yield
    except BaseException as error:  # the binding raises plain exceptions
        panics = type(error).__name__ == "PanicException"
        if isinstance(error, ToolkitError) or not (panics or isinstance(error, Exception)):
            raise
        raise ToolkitError(
            f"{TOKENIZER_FILE} must describe a tokenizer, but the package tokenizers says: "
            f"{' '.join(str(error).split())[:200]}. Give the file that save_pretrained wrote."
        ) from error


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Drop what native code prints on standard error."""
    kept = os.dup(STDERR)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


def build_tokenizer(text: str) -> HfTokenizer:
    """The tokenizer of a tokenizer.json, without padding and truncation."""
    with library_errors(), silence_stderr():
        tokenizer = HfTokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode(TRIAL, add_special_tokens=False)
    return tokenizer


def train_word_pieces(
    items: Sequence[str], *, vocab_size: int, character_coverage: float, lowercase: bool
) -> list[str]:
    """Special tokens, characters, then the most frequent pairs of pieces, merged again and again.

    BERT's own training is unpublished; the package tokenizers uses byte-pair merges (Sennrich et
    al. 2016). Listing the characters first makes the vocabulary a function of the text.
    """
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    counts = Counter[str]()
    for item in items:
        counts.update(normalizer.normalize_str(item))
    known = sorted((-count, letter) for letter, count in counts.items() if not letter.isspace())
    before = accumulate((-count for count, _ in known), initial=0)
    enough = character_coverage * -sum(count for count, _ in known)
    # the most frequent ones that cover this fraction
    letters = [it for seen, (_, it) in zip(before, known, strict=False) if seen < enough]
    fixed = [*SPECIAL.values(), *letters, *(WORD_REST + letter for letter in letters)]
    size = vocab_size + len(SPECIAL)
    if len(fixed) > size:
        raise ToolkitError(
            f"vocab_size must be at least twice the {len(letters)} characters of the text, but is "
            f"{vocab_size}. Raise it, or lower --character-coverage."
        )
    tokenizer = HfTokenizer(models.WordPiece(unk_token=SPECIAL["unk"]))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=fixed, limit_alphabet=0, show_progress=False
    )
    tokenizer.train_from_iterator(items, trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


BYTES = 256
FINAL_SIGMA = r"(?<=[\p{L}\p{Nl}])\u03a3(?![\p{L}\p{Nl}])"
"""A capital sigma at a word's end, which Python lowercases to the final sigma."""


def train_byte_pairs(lines: Iterable[str], *, vocabulary_size: int, lowercase: bool) -> Tokenizer:
    """256 bytes, then the most frequent pairs of pieces, merged again and again (Radford et al.
    2019, code: GPT-2's splitting of words, but with add_prefix_space).

    Lines are read once; the different words and their counts are all that is kept in memory.
    """
    if vocabulary_size < BYTES:
        raise ToolkitError(
            f"vocab_size must be at least {BYTES} with byte-level BPE, one for each byte, but is "
            f"{vocabulary_size}. Raise it."
        )
    backend = HfTokenizer(models.BPE())
    backend.normalizer = normalizers.Sequence(lowercase_normalizers() if lowercase else [])
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=len(SPECIAL) + vocabulary_size,
        special_tokens=[
            AddedToken(name, special=True, normalized=False, lstrip=role == "mask")
            for role, name in SPECIAL.items()  # the mask includes the space before it
        ],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    with library_errors():
        backend.train_from_iterator(map(split_long_words, lines), trainer)
    return HuggingFaceTokenizer(backend.to_str(), ROLES)


def train_bytes(lines: Iterable[str], *, vocabulary_size: int, lowercase: bool) -> Tokenizer:
    """Each byte of UTF-8 is a token, whatever the text and the size."""
    return train_byte_pairs([], vocabulary_size=BYTES, lowercase=lowercase)


def train_characters(lines: Iterable[str], *, vocabulary_size: int, lowercase: bool) -> Tokenizer:
    """The space and the most frequent characters; ties in code point order, others are unknown."""
    normalizer = normalizers.Sequence(lowercase_normalizers() if lowercase else [])
    counts = Counter[str]()
    for line in lines:
        counts.update(normalizer.normalize_str(line))
    counts[" "] = sys.maxsize
    ranked = sorted(counts, key=lambda letter: (-counts[letter], letter))[:vocabulary_size]
    ids = {symbol: number for number, symbol in enumerate([*SPECIAL.values(), *ranked])}
    backend = HfTokenizer(models.BPE(ids, [], unk_token=SPECIAL["unk"]))
    backend.normalizer = normalizers.Sequence([normalizer, normalizers.Prepend(" ")])
    backend.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    backend.add_special_tokens([*SPECIAL.values()])
    return HuggingFaceTokenizer(backend.to_str(), ROLES)


ROLES = {role: number for number, role in enumerate(SPECIAL)}


def lowercase_normalizers() -> list[Any]:
    """NFKD, drop combining marks, lowercase, as in toolkit.data.tokenizers.offsets."""
    return [
        normalizers.NFKD(),
        normalizers.Replace(Regex(combining_characters()), ""),
        normalizers.Replace(Regex(FINAL_SIGMA), "\u03c2"),
        normalizers.Lowercase(),
    ]


@cache
def combining_characters() -> str:
    """Regex class of the combining characters of unicodedata."""
    codes = (code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code)))
    runs = (list(run) for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]))
    return "[" + "".join(f"\\x{{{run[0][1]:x}}}-\\x{{{run[-1][1]:x}}}" for run in runs) + "]"

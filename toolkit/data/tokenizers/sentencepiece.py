"""What SentencePiece tells of each piece, read from the message that it serializes.

The message is of protocol buffers: fields, each a key and a value. All versions of the library give
it as bytes, and reading five fields needs no further package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.token_offsets import (
    TokenOffsets,
    TokenSpan,
    WordOffsets,
    pack_token_offsets,
    span_mapper,
    trim_span,
)
from toolkit.data.tokenizers.tokenizer import SYMBOLS_FILE, TOKENIZER_CONFIG_FILE, Ids, Tokenizer
from toolkit.data.tokenizers.vocabulary import WORD_START, append_special
from toolkit.data.tokenizers.word_cache import WordCache

PIECES = 2  # of the text
ID, BEGIN, END = 2, 4, 5  # of a piece
VARINT, BYTES = 0, 2  # how a value is laid out
FIXED = {1: 8, 5: 4}  # how many bytes others have


def pieces_of(message: bytes) -> list[tuple[int, int, int]]:
    """Id of each piece, and the bytes of the text from which and before which it stands."""
    found = []
    for field, value in fields(message):
        if field == PIECES and isinstance(value, bytes):
            told = dict(fields(value))
            number, begin, end = (told.get(name, 0) for name in (ID, BEGIN, END))
            assert isinstance(number, int), "an id is a number"
            assert isinstance(begin, int) and isinstance(end, int), "places are numbers"
            found.append((number, begin, end))
    return found


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        field, layout = key >> 3, key & 7
        if layout == VARINT:
            value, at = varint(message, at)
            yield field, value
            continue
        size = FIXED.get(layout)
        if size is None:
            size, at = varint(message, at)
        yield field, message[at : at + size]
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first; and where the next value begins."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def characters(text: str, places: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The same in characters of the text instead of bytes."""
    if text.isascii():
        return places
    of: list[int] = []
    for number, character in enumerate(text):
        of += [number] * len(character.encode())
    of.append(len(text))
    return [
        (piece, of[begin], of[end - 1] + 1 if end > begin else of[begin])
        for piece, begin, end in places
    ]


MODEL_FILE = "sentencepiece.model"
MANY = 32
OPTIONS = ("lowercase", "split_digit_commas")


class SentencePieceTokenizer(Tokenizer):
    """SentencePiece (Kudo & Richardson 2018) behind optional lower-casing, as Chang et al.

    Pieces do not cross spaces, so a sentence's best segmentation is that of its words one after
    the other; each distinct word is segmented once and remembered. A model that does cross spaces
    is asked sentence by sentence.
    """

    kind = "sentencepiece"
    files = (SYMBOLS_FILE, TOKENIZER_CONFIG_FILE, MODEL_FILE)

    def __init__(self, model: bytes, *, lowercase: bool, split_digit_commas: bool = False) -> None:
        self.model, self.split_digit_commas = model, split_digit_commas
        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        except Exception as error:  # the binding raises RuntimeError or its own class by version
            raise ToolkitError(
                "a SentencePiece model must be readable by sentencepiece, but is not: it is "
                "damaged or another program's. Give the .model file that its training wrote."
            ) from error
        pieces = [self._pieces.id_to_piece(i) for i in range(self._pieces.get_piece_size())]
        super().__init__(append_special(pieces, self._pieces.unk_id()), lowercase=lowercase)
        self._apart = self._digit_commas(pieces) if split_digit_commas else {}
        self._words = WordCache(self._segment)

    def encode_lines(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        if self._word_by_word:
            return self._words.encode_lines(lines)
        split = self._segment(lines)
        lengths = np.array([len(ids) for ids in split], np.int64)
        ids = np.fromiter(chain.from_iterable(split), np.int64, int(lengths.sum()))
        return ids, lengths

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        if self._word_by_word:
            return self._located.encode_with_offsets(lines)
        return pack_token_offsets([self._locate(line) for line in lines])

    @cached_property
    def _located(self) -> WordOffsets:
        return WordOffsets(self._locate)

    def _locate(self, text: str) -> list[TokenSpan]:
        plain, origin = self.normalize(text), span_mapper(text, self.lowercase)
        message = self._pieces.encode(plain, out_type="serialized_proto")
        places = characters(plain, pieces_of(message))
        parts = (part for piece in places for part in self._parts(piece))
        return [(i, *origin(trim_span(plain, (begin, end)))) for i, begin, end in parts]

    def _parts(self, piece: TokenSpan) -> list[TokenSpan]:
        """Those of a piece that is cut, one behind the other."""
        number, begin, end = piece
        if number not in self._apart:
            return [piece]
        ids = self._apart[number]
        widths = (len(self.vocabulary.symbols[i].removeprefix(WORD_START)) for i in ids)
        edges = [min(edge, end) for edge in accumulate(widths, initial=begin)]
        return [(i, *edge) for i, edge in zip(ids, pairwise(edges), strict=True)]

    def encode_continuation(self, text: str) -> list[int]:
        """The same pieces, but the first without the mark of a word's beginning."""
        ids, symbols = self.encode(text), self.vocabulary.symbols
        if not ids or not (first := symbols[ids[0]]).startswith(WORD_START):
            return ids
        bare = first.removeprefix(WORD_START)
        if not bare:
            return ids[1:]
        return [symbols.index(bare), *ids[1:]] if bare in symbols else ids

    def _join(self, ids: Sequence[int]) -> str:
        return str(self._pieces.decode(list(ids)))

    def _segment(self, texts: Sequence[str]) -> list[list[int]]:
        plain, split = [self.normalize(text) for text in texts], list[list[int]]()
        if len(plain) < MANY:  # many at once start a thread, which costs more than a few texts
            split = [self._pieces.encode(text) for text in plain]
        else:
            split = self._pieces.encode(plain, num_threads=1)
        if not self._apart:
            return split
        return [[j for i in ids for j in self._apart.get(i, (i,))] for ids in split]

    def _digit_commas(self, pieces: Sequence[str]) -> dict[int, list[int]]:
        """Pieces such as 9, -> those of 9 and the comma (Lan et al. 2020, released code)."""
        apart = {}
        for number, piece in enumerate(pieces):
            if piece[-1:] == "," and piece[-2:-1].isdigit():
                inside = self._pieces.encode(piece[:-1].replace(WORD_START, ""), out_type=str)
                if not piece.startswith(WORD_START):
                    inside = [inside[0].removeprefix(WORD_START), *inside[1:]]
                apart[number] = [self._pieces.piece_to_id(p) for p in [*inside, ","] if p]
        return apart

    @cached_property
    def _word_by_word(self) -> bool:
        """Whether no piece reaches over a space and spaces at the ends do not count."""
        symbols = self.vocabulary.symbols
        crossing = any(WORD_START in symbol[1:] for symbol in symbols)
        one, two, both = (self._pieces.encode(text) for text in ("a", "b", " a  b "))
        return WORD_START in symbols and not crossing and bool(both == one + two)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "split_digit_commas": self.split_digit_commas}

    def save(self, folder: Path | str) -> None:
        """dict.txt, tokenizer_config.json and sentencepiece.model."""
        super().save(folder)
        (Path(folder) / MODEL_FILE).write_bytes(self.model)

    @classmethod
    def _restore(
        cls, folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]
    ) -> SentencePieceTokenizer:
        options = {name: bool(settings.get(name, False)) for name in OPTIONS}
        tokenizer = cls((folder / MODEL_FILE).read_bytes(), **options)
        found = tokenizer.vocabulary
        if list(symbols) != found.symbols or settings["special"] != found.roles:
            raise ToolkitError(
                f"{folder / SYMBOLS_FILE} must list the pieces of {MODEL_FILE} beside it, but "
                f"differs. One of them was replaced: run toolkit-preprocess again."
            )
        return tokenizer

"""Vocabularies: symbols, their ids, and the ids of special tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import sha256
from toolkit.data.tokenizers.words import WordBoundaries, joins

WORD_START = "▁"  # SentencePiece's mark of a word's first piece
WORD_REST = "##"  # WordPiece's mark of all pieces but the first
UNFINISHED = "@@"  # subword-nmt's mark of all pieces but the last, as in fairseq
WORD_END = "</w>"  # mark of a word's last piece (Sennrich et al. 2016, code)
SPACE_BYTE = "\u0120"  # the space before a word in byte-level pieces
SPACE = " "  # the space before a word, a character of its own
MARKS = SPACE, WORD_START, SPACE_BYTE, WORD_REST
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHER_BYTES = [byte for byte in range(256) if byte not in PRINTABLE]
BYTE_LETTERS = {chr(byte): byte for byte in PRINTABLE}
BYTE_LETTERS |= {chr(256 + number): byte for number, byte in enumerate(OTHER_BYTES)}
"""The letter that stands for each byte in byte-level pieces (Radford et al. 2019, code)."""
BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")
"""SentencePiece's piece for a byte of a character that the model lacks."""
ROLES = ("pad", "cls", "sep", "mask", "unk")


def uses_mark(symbols: Sequence[str], mark: str) -> bool:
    """Whether the mark is a symbol or starts a tenth of them; else it is a letter of a few."""
    return mark in symbols or 10 * sum(it.startswith(mark) for it in symbols) >= len(symbols) > 0


class Vocabulary:
    """Symbols in order of their ids, and the ids of special tokens."""

    def __init__(
        self,
        symbols: Sequence[str],
        *,
        pad: int,
        cls: int,
        sep: int,
        mask: int,
        unk: int,
        mark: str = WORD_START,
        has_words: bool = True,
    ) -> None:
        self.symbols = list(symbols)
        self.mark = mark
        """Prefix of symbols that start a word, or of all others if it is WORD_REST; empty if every
        symbol is a word, or if marks at its end tell."""
        ends = sum(it.endswith(WORD_END) for it in self.symbols)
        self.marks_ends = not mark and 10 * ends >= len(self.symbols) > 0
        """Whether WORD_END marks the last piece of each word."""
        self.knows_words = bool(mark) or self.marks_ends or has_words
        """Whether symbols tell where words start: by marks, or as `has_words` promises."""
        self.pad, self.cls, self.sep, self.mask, self.unk = pad, cls, sep, mask, unk
        self.roles = dict(zip(ROLES, (pad, cls, sep, mask, unk), strict=True))
        """Role, such as pad or mask -> id."""
        self.special = pad, cls, sep, mask
        """Ids that never stand for text and are never masked."""
        self.dtype = "<u2" if len(self.symbols) <= 1 << 16 else "<i4"
        """The narrowest column type that holds every id."""
        for role, number in self.roles.items():
            if not 0 <= number < len(self.symbols):
                raise ToolkitError(
                    f"the id of {role} must lie in 0 .. {len(self.symbols) - 1}, but is {number}. "
                    f"Run toolkit-preprocess again."
                )

    def __len__(self) -> int:
        return len(self.symbols)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the symbols in order and of their roles, 64 hexadecimal digits."""
        return sha256(json.dumps([self.symbols, self.roles]))

    def display_symbol(self, symbol: str) -> str:
        """A piece that starts a word without its mark; one that continues a word after an ellipsis,
        since -s could be a dash and an s.
        """
        unmarked = symbol.removeprefix(self.mark)
        if symbol.startswith(self.mark) != (self.mark == WORD_REST):
            return unmarked or "(space)"
        continues = self.mark == WORD_REST or (symbol[:1].isalnum() and joins("a", symbol[:1]))
        return f"\N{HORIZONTAL ELLIPSIS}{unmarked}" if continues else unmarked

    @cached_property
    def words(self) -> WordBoundaries:
        """Where words start among the tokens, by the spaces before them."""
        return self._find_words(punctuation=False)

    @cached_property
    def masked_words(self) -> WordBoundaries:
        """Where words start if each punctuation mark is one: the same whatever the tokenizer."""
        return self._find_words(punctuation=True)

    def _find_words(self, *, punctuation: bool) -> WordBoundaries:
        marks_rest = self.mark == WORD_REST
        pieces = [(s.startswith(self.mark) != marks_rest, self._to_bytes(s)) for s in self.symbols]
        pieces[self.unk] = pieces[self.unk][0], b"a"  # not the signs in <unk>
        text = sorted({*range(len(self))} - {*self.roles.values()})
        unfinished = [i for i in text if self._is_unfinished(self.symbols[i])]
        return WordBoundaries(pieces, self.special, unfinished, punctuation=punctuation)

    def _is_unfinished(self, symbol: str) -> bool:
        """Whether it is a piece that does not end its word, by subword-nmt's mark or without
        WORD_END.
        """
        if self.marks_ends:
            return not symbol.endswith(WORD_END)
        return not self.mark and symbol.endswith(UNFINISHED)

    def _to_bytes(self, symbol: str) -> bytes:
        """The text of a symbol without the mark, which may begin and end within a character."""
        text = symbol.removeprefix(self.mark)
        if self.marks_ends:
            return text.removesuffix(WORD_END).encode()
        if self._is_unfinished(symbol):
            return text.removesuffix(UNFINISHED).encode()
        if self.mark == SPACE_BYTE and all(letter in BYTE_LETTERS for letter in text):
            return bytes(BYTE_LETTERS[letter] for letter in text)
        if byte := BYTE_PIECE.fullmatch(text):
            return bytes.fromhex(byte[1])
        return text.encode()


def append_special(pieces: Sequence[str], unk: int) -> Vocabulary:
    """The pieces, then [CLS] [SEP] <pad> [MASK]: V = pieces + 4 (Chang et al. 2021)."""
    added = ["[CLS]", "[SEP]", "<pad>", "[MASK]"]
    clash = sorted(set(added) & set(pieces))
    if clash:
        raise ToolkitError(
            f"a SentencePiece model must not contain {', '.join(clash)}: the toolkit appends "
            f"[CLS] [SEP] <pad> [MASK]. Train it without these symbols."
        )
    n = len(pieces)
    return Vocabulary([*pieces, *added], cls=n, sep=n + 1, pad=n + 2, mask=n + 3, unk=unk)


def write_symbols(symbols: Sequence[str]) -> str:
    """dict.txt: line i is symbol i, with backslash, newline and carriage return escaped."""
    lines = (s.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r") for s in symbols)
    return "".join(f"{line}\n" for line in lines)


def read_symbols(text: str) -> list[str]:
    """The symbols that `write_symbols` wrote."""
    letters, lines = {"n": "\n", "r": "\r", "\\": "\\"}, text.split("\n")[:-1]
    return [re.sub(r"\\([nr\\])", lambda match: letters[match[1]], line) for line in lines]

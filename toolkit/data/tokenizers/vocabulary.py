"""Vocabularies: symbols, their ids, and the ids of special tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from toolkit.common.arrays import BoolArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import sha256

WORD_START = "▁"  # SentencePiece's mark of a word's first piece
WORD_REST = "##"  # WordPiece's mark of all pieces but the first
SPACE_BYTE = "\u0120"  # the space before a word in byte-level pieces
ROLES = ("pad", "cls", "sep", "mask", "unk")


def uses_mark(symbols: Sequence[str], mark: str) -> bool:
    """Whether the mark is a separate symbol or starts a tenth of the symbols.

    Otherwise it is an ordinary letter of a few symbols.
    """
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
    ) -> None:
        self.symbols = list(symbols)
        self.mark = mark
        """Prefix of symbols that start a word, or of all others if it is WORD_REST; empty if every
        symbol is a word."""
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
        """A piece that starts a word without its mark; one that continues a word with ##.

        Not with a dash: -s could be a dash and an s.
        """
        unmarked = symbol.removeprefix(self.mark)
        if symbol.startswith(self.mark) != (self.mark == WORD_REST):
            return unmarked or "(space)"
        continues = self.mark != WORD_START or symbol[:1].isalnum()
        return f"{WORD_REST}{unmarked}" if continues else unmarked

    @cached_property
    def starts_word(self) -> BoolArray:
        """For each id, whether it is the first piece of a word; special tokens are not."""
        starts: BoolArray = np.array([symbol.startswith(self.mark) for symbol in self.symbols])
        starts ^= self.mark == WORD_REST
        starts[list(self.special)] = False
        return starts


def append_special(pieces: Sequence[str], unk: int) -> Vocabulary:
    """The pieces, then [CLS] [SEP] <pad> [MASK]: V = pieces + 4 (Chang et al. 2021)."""
    added = ["[CLS]", "[SEP]", "<pad>", "[MASK]"]
    clash = sorted(set(added) & set(pieces))
    if clash:
        raise ToolkitError(
            f"a SentencePiece model must not contain {', '.join(clash)}: the toolkit appends "
            f"[CLS] [SEP] <pad> [MASK]. Train it without these symbols."
        )
    size = len(pieces)
    return Vocabulary(
        [*pieces, *added], cls=size, sep=size + 1, pad=size + 2, mask=size + 3, unk=unk
    )


def write_symbols(symbols: Sequence[str]) -> str:
    """dict.txt: line i is symbol i, with backslash, newline and carriage return escaped."""
    lines = (s.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r") for s in symbols)
    return "".join(f"{line}\n" for line in lines)


def read_symbols(text: str) -> list[str]:
    """The symbols that `write_symbols` wrote."""

    def unescape(line: str) -> str:
        parts = line.split("\\\\")
        parts = [part.replace("\\n", "\n").replace("\\r", "\r") for part in parts]
        return "\\".join(parts)

    return [unescape(line) for line in text.split("\n")[:-1]]

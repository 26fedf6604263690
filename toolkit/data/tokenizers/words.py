"""Words: runs between spaces, and finer in scripts that are written without spaces.

There the boundaries are those of Unicode Standard Annex 29 without a dictionary. An ideograph is a
word, as in BERT (Devlin et al. 2019, code); so is each hiragana, and each letter of Thai, Lao,
Khmer, Burmese and their relatives (class SA of Unicode Standard Annex 14, and Tibetan), with the
marks on it. A run of katakana is one word. Masks choose finer words: each punctuation mark is one
too, as in BERT, so that words are the same whatever the tokenizer.

A token that covers several words is never divided. If it is part of a character, as in byte-level
BPE, the word counts where its character begins. If no token has more than two bytes of it, most
characters that begin with these decide.
"""

from __future__ import annotations

import codecs
import re
import string
import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray, UInt8

KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
SPACELESS = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"  # class SA
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u309f\u3105-\u312f\u31a0-\u31bf\u3400-\u4dbf"
    "\u4e00-\ua4cf\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"  # ideographs, kana, Yi
)
WORDS = re.compile(f"[{KATAKANA}]+|[{SPACELESS}]|[^ {KATAKANA}{SPACELESS}]+")
"""The words of text without marks."""
OTHER, LETTER, RUN, JOINS, STARTS = range(5)
"""What a token begins with: a character of a script with spaces, a letter that is a word, katakana,
a mark or the rest of a character, the start of a word. Also what it ends in; STARTS: the space."""
BOUNDARIES = np.zeros((5, 5), bool)
"""Whether a word starts at a token, by the end of the token before and by its own beginning."""
BOUNDARIES[:, STARTS] = BOUNDARIES[:STARTS, LETTER] = True
BOUNDARIES[[OTHER, LETTER], RUN] = BOUNDARIES[[LETTER, RUN], OTHER] = True


def is_mark(character: str) -> bool:
    """Whether it is a vowel sign or an accent, which belongs to the character before it."""
    return unicodedata.category(character).startswith("M")


def split_words(text: str) -> list[str]:
    """The words of a text, without the marks on their letters."""
    return WORDS.findall("".join(c for c in text if not is_mark(c)))


def is_punctuation(character: str) -> bool:
    """As in BERT (Devlin et al. 2019, code), where symbols of ASCII such as $ are punctuation."""
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def joins(left: str, right: str) -> bool:
    """Whether a word of letters and digits continues from one character to the next."""
    if not (is_mark(left) or left.isalnum()):
        return False
    return is_mark(right) or (right.isalnum() and len(WORDS.findall(left + right)) == 1)


class WordBoundaries:
    """Where words start among the tokens of a vocabulary, by tables that are computed once.

    `pieces` says of each id whether its mark starts a word, and its text without the mark in UTF-8;
    `unfinished`, which ids end in a mark that lets the next token continue their word. With
    `punctuation`, each punctuation mark is a word.
    """

    def __init__(
        self,
        pieces: Sequence[tuple[bool, bytes]],
        special: Sequence[int],
        unfinished: Sequence[int] = (),
        *,
        punctuation: bool = False,
    ) -> None:
        self._punctuation = punctuation
        rows = [_describe(*piece, punctuation) for piece in pieces]
        unmarked = [_describe(False, data, punctuation)[0] for _, data in pieces if unfinished]
        self._unmarked, self._unfinished = np.array(unmarked, np.uint8), np.zeros(len(rows), bool)
        for i in special:
            rows[i] = (JOINS, OTHER, 0, 0)
        self._unfinished[list(unfinished)] = True
        self._first, self._last, self.inner, self._edge = np.array(rows, np.uint8).T.copy()
        self._has_parts = bool(self._edge.any())
        self._has_spaceless = self._has_parts or bool(np.isin(self._last, [LETTER, RUN]).any())

    inner: UInt8
    """For each id, the number of words that start in the token after its beginning."""

    def starts(self, tokens: IntArray) -> BoolArray:
        """Whether a word starts at each token, along the last axis; never at special tokens.
        Callers know where the first word of a text is, which some tokenizers do not mark.
        """
        first, last = self._first[tokens], self._last[tokens]
        if len(self._unmarked):
            continues = self._unfinished[tokens[..., :-1]]
            first[..., 1:][continues] = self._unmarked[tokens[..., 1:][continues]]
        found: BoolArray = first == STARTS
        if not self._has_spaceless:
            return found
        if self._has_parts:  # of a first byte alone, the next byte tells the script
            edge = self._edge[tokens]
            lead = np.nonzero(edge[..., :-1] >= FIRST_BYTES)
            kinds = _kinds_of_bytes(self._punctuation)[edge[..., :-1][lead], edge[..., 1:][lead]]
            first[lead] = last[lead] = kinds
        places = np.where(last == JOINS, 0, np.arange(tokens.shape[-1]))
        origin = np.maximum.accumulate(places, axis=-1)
        before = np.take_along_axis(last, origin, -1)[..., :-1]
        found[..., 1:] |= BOUNDARIES[before, first[..., 1:]]
        found[..., :1] |= BOUNDARIES[OTHER, first[..., :1]]
        return found


FIRST_BYTES = 0xC0  # the first byte of a character is at least this, others are 0x80 or more


def _describe(marked: bool, data: bytes, punctuation: bool) -> tuple[int, int, int, int]:
    """What a token begins with and ends in, the words within, and a byte that is part of a letter:
    the first one, if it continues a character or is alone.
    """
    text, continues = _decode(data.lstrip(CONTINUATION), punctuation), data[:1] in CONTINUATION
    if text.isspace() or (marked and not data):
        return STARTS, STARTS, 0, 0
    if data.isascii() and text.isascii():
        return (STARTS if marked else OTHER), OTHER, 0, 0
    words = split_words(text)
    kinds = [_kind(word) for word in words] or [JOINS]
    first = JOINS if continues or is_mark(text[0]) else kinds[0]
    inner = len(words) - 1 + (first == JOINS and kinds[0] == LETTER)
    alone = not data.isascii() and (len(data) == 1 or continues)
    return STARTS if marked else first, kinds[-1], max(0, inner), data[0] if alone else 0


CONTINUATION = bytes(range(0x80, FIRST_BYTES))


def _decode(data: bytes, punctuation: bool) -> str:
    """The characters; for one whose end is missing, one of those possible, usually a letter. With
    `punctuation`, an ideograph, which is a word, stands for each punctuation mark.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text, rest = decoder.decode(data), decoder.getstate()[0]
    if rest:
        size = 2 + (rest[0] >= 0xE0) + (rest[0] >= 0xF0)
        text += (rest + b"\x9f\x9f\x9f")[:size].decode(errors="replace")
    return "".join("\u4e00" if punctuation and is_punctuation(c) else c for c in text)


def _kind(word: str) -> int:
    """Of a word from `WORDS`."""
    if re.match(f"[{KATAKANA}]", word):
        return RUN
    return LETTER if re.match(f"[{SPACELESS}]", word) else OTHER


@cache
def _kinds_of_bytes(punctuation: bool) -> UInt8:
    """What a character is by its first two bytes; 0 for any other second byte."""
    kinds = np.zeros((256, 256), np.uint8)
    for first in range(0xC2, 0xF5):
        for second in CONTINUATION:
            kinds[first, second] = _kind(_decode(bytes([first, second]), punctuation))
    return kinds

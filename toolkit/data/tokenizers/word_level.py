"""A dictionary of whole words, as fairseq uses it: symbols are what spaces separate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import read_text
from toolkit.data.tokenizers.token_offsets import TokenOffsets, TokenSpan, WordOffsets, span_mapper
from toolkit.data.tokenizers.tokenizer import Ids, Tokenizer
from toolkit.data.tokenizers.vocabulary import (
    WORD_START,
    Vocabulary,
    starts_sentencepiece_word,
    starts_whole_word,
    uses_mark,
)

FAIRSEQ_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's ids 0 to 3, not in its file
MASK = "<mask>"
OVERWRITE = "#fairseq:overwrite"


class _Index(dict[str, int]):
    """Ids of words; one that is missing is unknown."""

    unknown: int

    def __missing__(self, word: str) -> int:
        return self.unknown


class WordLevelTokenizer(Tokenizer):
    """Words between white space, each an id or unknown (Ott et al. 2019, fairseq's dict.txt).

    A word of the text that is spelled like a special symbol is unknown, so that text never pads or
    ends a sentence. Where a symbol is listed twice the later one is meant, as in fairseq.
    """

    kind = "dictionary"

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool = False) -> None:
        super().__init__(vocabulary, lowercase=lowercase)
        index = {symbol: i for i, symbol in enumerate(vocabulary.symbols)}
        special = set(vocabulary.special)
        self._index = _Index({word: i for word, i in index.items() if i not in special})
        self._index.unknown = vocabulary.unk

    @classmethod
    def from_file(cls, path: Path | str, *, lowercase: bool = False) -> WordLevelTokenizer:
        """fairseq's file: a line `symbol count` for each symbol behind <s> <pad> </s> <unk>.

        `#fairseq:overwrite` behind the count lets a line repeat a symbol. <mask> is appended
        unless the file has it.
        """
        path = Path(path)
        text = read_text(path).replace("\r\n", "\n").replace("\r", "\n")
        symbols, line_of = list(FAIRSEQ_SPECIAL), dict.fromkeys(FAIRSEQ_SPECIAL, 0)
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
            symbol, overwrite = _entry(path, number, line)
            if symbol in line_of and not overwrite:
                _refuse_twice(path, number, symbol, line_of[symbol])
            line_of[symbol] = number
            symbols.append(symbol)
        return cls.from_symbols(symbols, lowercase=lowercase)

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], *, size: int, min_count: int = 1, lowercase: bool = False
    ) -> WordLevelTokenizer:
        """The `size` most frequent words that come `min_count` times; ties in order of code."""
        known = ((count, word) for word, count in counts.items() if count >= min_count)
        ranked = sorted(known, key=lambda entry: (-entry[0], entry[1]))
        words = [word for _, word in ranked if word not in (*FAIRSEQ_SPECIAL, MASK)]
        return cls.from_symbols([*FAIRSEQ_SPECIAL, *words[:size]], lowercase=lowercase)

    @classmethod
    def from_symbols(cls, symbols: Sequence[str], *, lowercase: bool = False) -> WordLevelTokenizer:
        """Of symbols that begin with fairseq's four."""
        symbols = list(symbols) if MASK in symbols else [*symbols, MASK]
        mask = len(symbols) - 1 - symbols[::-1].index(MASK)
        return cls(_vocabulary(symbols, cls=0, pad=1, sep=2, unk=3, mask=mask), lowercase=lowercase)

    def encode_lines(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        split = [self.normalize(line).split() for line in lines]
        lengths = np.array([len(words) for words in split], np.int64)
        ids = map(self._index.__getitem__, chain.from_iterable(split))
        return np.fromiter(ids, np.int64, int(lengths.sum())), lengths

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        return self._located.encode_with_offsets(lines)

    @cached_property
    def _located(self) -> WordOffsets:
        return WordOffsets(self._locate)

    def _locate(self, word: str) -> list[TokenSpan]:
        origin, found = span_mapper(word, self.lowercase), re.finditer(r"\S+", self.normalize(word))
        return [(self._index[match.group()], *origin(match.span())) for match in found]

    def encode_continuation(self, text: str) -> list[int]:
        """Words have no parts: the same as `encode`."""
        return self.encode(text)

    def _join(self, ids: Sequence[int]) -> str:
        return " ".join(self.vocabulary.symbols[i] for i in ids)

    @classmethod
    def _restore(
        cls, folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]
    ) -> WordLevelTokenizer:
        vocabulary = _vocabulary(symbols, **settings["special"])
        return cls(vocabulary, lowercase=bool(settings["lowercase"]))


def _vocabulary(symbols: Sequence[str], **roles: int) -> Vocabulary:
    """Of words; where they are SentencePiece's pieces, as such."""
    begins = starts_sentencepiece_word if uses_mark(symbols, WORD_START) else starts_whole_word
    return Vocabulary(symbols, is_word_start=begins, **roles)


def _entry(path: Path, number: int, line: str) -> tuple[str, bool]:
    """The symbol of a line, and whether it may repeat one."""
    parts = line.rstrip().rsplit(" ", 1)
    overwrite = len(parts) == 2 and parts[1] == OVERWRITE
    if overwrite:
        parts = parts[0].rsplit(" ", 1)
    if len(parts) == 2 and parts[1].lstrip("+-").isdecimal():
        return parts[0], overwrite
    shown = repr(line[:60]) if line.strip() else "blank"
    raise ToolkitError(
        f"{path}:{number} must be a symbol, a space and its count, but is {shown}. Give a dict.txt "
        f"that fairseq wrote; a data folder's or checkpoint's own has no counts: name that folder "
        f"with --tokenizer-from."
    )


def _refuse_twice(path: Path, number: int, symbol: str, line: int) -> NoReturn:
    where = (
        f"on line {line}"
        if line
        else f"kind {' '.join(FAIRSEQ_SPECIAL)}, which come first by themselves"
    )
    raise ToolkitError(
        f"{path}:{number} must name a symbol of its own, but {symbol!r} is already {where}. Take "
        f"one out, or end this line with {OVERWRITE} to let it win, as in fairseq."
    )

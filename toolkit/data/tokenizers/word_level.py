"""Word-level tokenizer with fairseq's dictionaries: tokens are separated by white space."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.data.text_files import read_text
from toolkit.data.tokenizers.offsets import TokenSpan, lower_without_accents, span_mapper
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import UNFINISHED, WORD_START, Vocabulary, uses_mark

FAIRSEQ_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3, not listed in dict.txt
MASK = "<mask>"
ENTRY = re.compile(r"(.*) [+-]*\d+( #fairseq:overwrite)?", re.DOTALL)
"""A line of fairseq's dict.txt: symbol and count."""


class WordLevelTokenizer(Tokenizer):
    """Words between white space, each an id or unknown (Ott et al. 2019, fairseq's dict.txt).

    A word of the text that is spelled like a special token is unknown, so text never pads or ends
    a sentence. Of two equal symbols the later one counts, as in fairseq.
    """

    kind = "words"

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool = False) -> None:
        super().__init__(vocabulary, lowercase=lowercase)
        ids = {symbol: i for i, symbol in enumerate(vocabulary.symbols)}
        self._ids = {word: i for word, i in ids.items() if i not in set(vocabulary.special)}

    @classmethod
    def from_file(cls, path: Path | str, *, lowercase: bool = False) -> WordLevelTokenizer:
        """fairseq's dict.txt: a line `symbol count` for each symbol after <s> <pad> </s> <unk>,
        with `#fairseq:overwrite` if it may be repeated. <mask> is appended if it is missing.
        """
        path = Path(path)
        text = read_text(path).replace("\r\n", "\n").replace("\r", "\n")
        symbols, line_of = list(FAIRSEQ_SPECIAL), dict.fromkeys(FAIRSEQ_SPECIAL, 0)
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
            entry = ENTRY.fullmatch(line.rstrip())
            if entry is None:
                found = repr(line[:60]) if line.strip() else "a blank line"
                raise ToolkitError(
                    f"{path}:{number}: expected a symbol, a space and its count, found {found}. "
                    f"Give a dict.txt of fairseq; the dict.txt of a data folder or checkpoint has "
                    f"no counts: name that folder with --tokenizer-from."
                )
            symbol, overwrite = entry.groups()
            if symbol in line_of and not overwrite:
                first = line_of[symbol]
                other = (
                    f"line {first}" if first else "one of <s> <pad> </s> <unk>, which come first"
                )
                raise ToolkitError(
                    f"{path}:{number}: {symbol!r} repeats {other}. Remove one, or end this line "
                    f"with #fairseq:overwrite to let it win, as in fairseq."
                )
            line_of[symbol] = number
            symbols.append(symbol)
        return cls.from_symbols(symbols, lowercase=lowercase)

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], *, size: int, min_count: int = 1, lowercase: bool = False
    ) -> WordLevelTokenizer:
        """The `size` most frequent words of at least `min_count`; ties in code point order."""
        frequent = ((count, word) for word, count in counts.items() if count >= min_count)
        ranked = sorted(frequent, key=lambda entry: (-entry[0], entry[1]))
        words = [word for _, word in ranked if word not in (*FAIRSEQ_SPECIAL, MASK)]
        return cls.from_symbols([*FAIRSEQ_SPECIAL, *words[:size]], lowercase=lowercase)

    @classmethod
    def from_symbols(cls, symbols: Sequence[str], *, lowercase: bool = False) -> WordLevelTokenizer:
        """From symbols that start with fairseq's four special tokens."""
        symbols = list(symbols) if MASK in symbols else [*symbols, MASK]
        mask = len(symbols) - 1 - symbols[::-1].index(MASK)
        vocabulary = _make_vocabulary(symbols, cls=0, pad=1, sep=2, unk=3, mask=mask)
        return cls(vocabulary, lowercase=lowercase)

    @classmethod
    def _train(cls, lines: Sequence[str], *, vocabulary_size: int, lowercase: bool) -> Tokenizer:
        counts = Counter[str]()
        for line in lines:
            counts.update((lower_without_accents(line) if lowercase else line).split())
        return cls.from_counts(counts, size=vocabulary_size, lowercase=lowercase)

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray]:
        split = [self.normalize(line).split() for line in lines]
        lengths = np.array([len(words) for words in split], np.int64)
        ids = map(self._ids.get, chain.from_iterable(split), repeat(self.vocabulary.unk))
        return np.fromiter(ids, np.int64, int(lengths.sum())), lengths

    def _locate(self, text: str) -> list[TokenSpan]:
        to_original = span_mapper(text, self.lowercase)
        spans = (match.span() for match in re.finditer(r"\S+", self.normalize(text)))
        tokens = zip(self.encode(text), spans, strict=True)
        return [(i, *to_original(span)) for i, span in tokens]

    def _decode(self, ids: Sequence[int]) -> str:
        """The words; the pieces of words of subword-nmt, which end in @@, are joined."""
        return " ".join(self.vocabulary.symbols[i] for i in ids).replace(f"{UNFINISHED} ", "")

    @classmethod
    def _restore(cls, folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
        vocabulary = _make_vocabulary(symbols, **settings["special"])
        return cls(vocabulary, lowercase=bool(settings["lowercase"]))


def _make_vocabulary(symbols: Sequence[str], **roles: int) -> Vocabulary:
    """Symbols are words, or SentencePiece pieces if they carry its mark."""
    mark = WORD_START if uses_mark(symbols, WORD_START) else ""
    return Vocabulary(symbols, mark=mark, has_words=True, **roles)

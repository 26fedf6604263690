"""A tokenizer that another program made: its tokenizer.json, through the package tokenizers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.token_offsets import Located, Token, packed, tidied
from toolkit.data.tokenizers.tokenizer import CODEC_FILE, MASK, SYMBOLS_FILE, Codec, Ids
from toolkit.data.tokenizers.vocabulary import (
    SPACE_BYTE,
    WORD_REST,
    WORD_START,
    Vocabulary,
    first_marked,
    is_marked,
    rest_marked,
    space_marked,
    whole_words,
)
from toolkit.data.tokenizers.wordpiece import tokenizers

TOKENIZER_FILE = "tokenizer.json"
MARKS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    (WORD_START, first_marked),
    (SPACE_BYTE, space_marked),
    (WORD_REST, rest_marked),
)


class GivenTokenizer(Codec):
    """Whatever a tokenizer.json describes: its normalisation, its pieces, its ids.

    Special symbols spelt out in the text are ordinary text or unknown, so that text never pads or
    ends a sentence. `rows` is the model's number of symbols: more than the tokenizer has get names
    that no text has, and what the tokenizer has above it is unknown.
    """

    kind = "tokenizer"
    files = (SYMBOLS_FILE, CODEC_FILE, TOKENIZER_FILE)

    def __init__(self, text: str, roles: Mapping[str, int], *, rows: int | None = None) -> None:
        self.text = text
        try:
            self._tokenizer = tokenizers().Tokenizer.from_str(text)
        except ToolkitError:
            raise
        except Exception as error:  # the binding raises plain exceptions
            raise ToolkitError(
                f"{TOKENIZER_FILE} must describe a tokenizer, but the package tokenizers says: "
                f"{' '.join(str(error).split())[:200]}. Give the file that save_pretrained wrote."
            ) from error
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        index = self._tokenizer.get_vocab(with_added_tokens=True)
        symbols = numbered(index, rows)
        known = [symbol for i, symbol in enumerate(symbols) if i not in roles.values()]
        self._mark = mark_of(known)
        begins = dict(MARKS).get(self._mark, whole_words)
        self._index = index
        super().__init__(Vocabulary(symbols, begins=begins, **roles), lowercase=False)

    def encode_lines(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        # one by one: encode_batch would start threads of its own, in every worker
        split = [self._tokenizer.encode(line, add_special_tokens=False).ids for line in lines]
        lengths = np.array([len(ids) for ids in split], np.int64)
        ids = np.fromiter(chain.from_iterable(split), np.int64, int(lengths.sum()))
        return self._known(ids), lengths

    def encode_words(self, words: Sequence[str]) -> tuple[Ids, Ids]:
        """Pieces that are bytes have the space before them too."""
        if self._mark == SPACE_BYTE:
            words = [f" {word}" for word in words]
        return self.encode_lines(words)

    def locate_lines(self, lines: Sequence[str]) -> Located:
        found = packed([self._locate(line) for line in lines])
        return found._replace(ids=self._known(found.ids))

    def _locate(self, line: str) -> list[Token]:
        found = self._tokenizer.encode(line, add_special_tokens=False)
        places = (tidied(line, place) for place in found.offsets)
        return [(token, *place) for token, place in zip(found.ids, places, strict=True)]

    def _known(self, ids: Ids) -> Ids:
        """Unknown where the model has no such symbol, or text must not spell it."""
        strange = (ids >= len(self.vocabulary)) | np.isin(ids, self.vocabulary.special)
        return np.where(strange, self.vocabulary.unk, ids)

    def encode_marked(self, text: str) -> list[int]:
        """The space before a special symbol belongs to it, as RoBERTa's tokenizer has it."""
        names = [MASK, *(self.vocabulary.symbols[i] for i in self.vocabulary.special)]
        return super().encode_marked(re.sub(f" +(?={'|'.join(map(re.escape, names))})", "", text))

    def continue_word(self, text: str) -> list[int]:
        """The same pieces, the first one as one that goes on, where there is such a piece."""
        ids = self.encode(text)
        if not ids:
            return ids
        first = self.vocabulary.symbols[ids[0]]
        other = WORD_REST + first if self._mark == WORD_REST else first.removeprefix(self._mark)
        if not other:
            return ids[1:]
        return [self._index.get(other, ids[0]), *ids[1:]]

    def _join(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False)).strip()

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "rows": len(self.vocabulary)}

    def save(self, folder: Path | str) -> None:
        """dict.txt, codec.json and tokenizer.json."""
        super().save(folder)
        (Path(folder) / TOKENIZER_FILE).write_text(self.text, encoding="utf-8", newline="\n")

    @classmethod
    def _restore(
        cls, folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]
    ) -> GivenTokenizer:
        text = (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
        codec = cls(text, settings["special"], rows=int(settings["rows"]))
        if list(symbols) != codec.vocabulary.symbols:
            raise ToolkitError(
                f"{folder / SYMBOLS_FILE} must list the symbols of {TOKENIZER_FILE} beside it, but "
                f"differs. One of them was replaced: convert the model again."
            )
        return codec


def mark_of(symbols: Sequence[str]) -> str:
    """That of most symbols, for any may also be a letter of some; empty where none marks pieces."""
    counts = {m: sum(s.startswith(m) for s in symbols) for m, _ in MARKS if is_marked(symbols, m)}
    return max(counts, key=lambda mark: counts[mark], default="")


def numbered(index: Mapping[str, int], rows: int | None) -> list[str]:
    """Symbols by id; ids that have none get a name that no text has."""
    count = max(index.values(), default=-1) + 1 if rows is None else rows
    symbols = [f"[no symbol {number}]" for number in range(count)]
    for symbol, number in index.items():
        if number < count:
            symbols[number] = symbol
    return symbols

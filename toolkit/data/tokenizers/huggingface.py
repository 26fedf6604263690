"""A tokenizer that another program made: its tokenizer.json, through the package tokenizers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.token_offsets import (
    TokenOffsets,
    TokenSpan,
    pack_token_offsets,
    trim_span,
)
from toolkit.data.tokenizers.tokenizer import (
    MASK,
    SYMBOLS_FILE,
    TOKENIZER_CONFIG_FILE,
    Ids,
    Tokenizer,
)
from toolkit.data.tokenizers.vocabulary import (
    SPACE_BYTE,
    WORD_REST,
    WORD_START,
    Vocabulary,
    starts_byte_level_word,
    starts_sentencepiece_word,
    starts_whole_word,
    starts_wordpiece_word,
    uses_mark,
)
from toolkit.data.tokenizers.wordpiece import import_tokenizers

TOKENIZER_FILE = "tokenizer.json"
MARKS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    (WORD_START, starts_sentencepiece_word),
    (SPACE_BYTE, starts_byte_level_word),
    (WORD_REST, starts_wordpiece_word),
)


class HuggingFaceTokenizer(Tokenizer):
    """Whatever a tokenizer.json describes: its normalization, its pieces, its ids.

    Special symbols spelled out in the text are ordinary text or unknown, so that text never pads or
    ends a sentence. `rows` is the model's number of symbols: more than the tokenizer has get names
    that no text has, and what the tokenizer has above it is unknown.
    """

    kind = "tokenizer"
    files = (SYMBOLS_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE)

    def __init__(self, text: str, roles: Mapping[str, int], *, rows: int | None = None) -> None:
        self.text = text
        try:
            self._tokenizer = import_tokenizers().Tokenizer.from_str(text)
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
        symbols = list_symbols(index, rows)
        known = [symbol for i, symbol in enumerate(symbols) if i not in roles.values()]
        self._mark = find_word_mark(known)
        begins = dict(MARKS).get(self._mark, starts_whole_word)
        self._index = index
        super().__init__(Vocabulary(symbols, is_word_start=begins, **roles), lowercase=False)

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

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        found = pack_token_offsets([self._locate(line) for line in lines])
        return found._replace(ids=self._known(found.ids))

    def _locate(self, line: str) -> list[TokenSpan]:
        found = self._tokenizer.encode(line, add_special_tokens=False)
        places = (trim_span(line, place) for place in found.offsets)
        return [(token, *place) for token, place in zip(found.ids, places, strict=True)]

    def _known(self, ids: Ids) -> Ids:
        """Unknown where the model has no such symbol, or text must not spell it."""
        strange = (ids >= len(self.vocabulary)) | np.isin(ids, self.vocabulary.special)
        return np.where(strange, self.vocabulary.unk, ids)

    def encode_parsing_special(self, text: str) -> list[int]:
        """The space before a special symbol belongs to it, as RoBERTa's tokenizer has it."""
        names = [MASK, *(self.vocabulary.symbols[i] for i in self.vocabulary.special)]
        return super().encode_parsing_special(
            re.sub(f" +(?={'|'.join(map(re.escape, names))})", "", text)
        )

    def encode_continuation(self, text: str) -> list[int]:
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
        """dict.txt, tokenizer_config.json and tokenizer.json."""
        super().save(folder)
        (Path(folder) / TOKENIZER_FILE).write_text(self.text, encoding="utf-8", newline="\n")

    @classmethod
    def _restore(
        cls, folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]
    ) -> HuggingFaceTokenizer:
        text = (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
        tokenizer = cls(text, settings["special"], rows=int(settings["rows"]))
        if list(symbols) != tokenizer.vocabulary.symbols:
            raise ToolkitError(
                f"{folder / SYMBOLS_FILE} must list the symbols of {TOKENIZER_FILE} beside it, but "
                f"differs. One of them was replaced: convert the model again."
            )
        return tokenizer


def find_word_mark(symbols: Sequence[str]) -> str:
    """That of most symbols, for any may also be a letter of some; empty where none marks pieces."""
    counts = {m: sum(s.startswith(m) for s in symbols) for m, _ in MARKS if uses_mark(symbols, m)}
    return max(counts, key=lambda mark: counts[mark], default="")


def list_symbols(index: Mapping[str, int], rows: int | None) -> list[str]:
    """Symbols by id; ids that have none get a name that no text has."""
    count = max(index.values(), default=-1) + 1 if rows is None else rows
    symbols = [f"[no symbol {number}]" for number in range(count)]
    for symbol, number in index.items():
        if number < count:
            symbols[number] = symbol
    return symbols

"""Tokenizers of Hugging Face models: a tokenizer.json, read with the package tokenizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.input_files import read_bytes
from toolkit.common.json_files import JsonObject
from toolkit.data.ragged import pack_rows
from toolkit.data.tokenizers.token_offsets import (
    TokenOffsets,
    TokenSpan,
    pack_token_offsets,
    trim_span,
)
from toolkit.data.tokenizers.tokenizer import MASK, SYMBOLS_FILE, TOKENIZER_CONFIG_FILE, Tokenizer
from toolkit.data.tokenizers.vocabulary import (
    SPACE_BYTE,
    WORD_REST,
    WORD_START,
    Vocabulary,
    uses_mark,
)
from toolkit.data.tokenizers.wordpiece import HfTokenizer, encode_word_rest, import_tokenizers

TOKENIZER_FILE = "tokenizer.json"


class HuggingFaceTokenizer(Tokenizer):
    """Normalization, pieces and ids as described in a tokenizer.json.

    Special tokens spelled out in the text are ordinary text or unknown, so text never pads or ends
    a sentence. `rows` is the number of symbols of the model: ids that the tokenizer lacks get
    names that no text contains, and its ids beyond the model's are unknown.
    """

    kind = "huggingface"
    files = (SYMBOLS_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE)

    def __init__(self, text: str, roles: Mapping[str, int], *, rows: int | None = None) -> None:
        self.text, self._tokenizer = text, build_tokenizer(text)
        self._tokenizer.encode_special_tokens = True
        symbols = list_symbols(self._tokenizer.get_vocab(with_added_tokens=True), rows)
        ordinary = [symbol for i, symbol in enumerate(symbols) if i not in roles.values()]
        mark = find_word_mark(ordinary)
        super().__init__(Vocabulary(symbols, mark=mark, **roles), lowercase=False)

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray]:
        # one by one: encode_batch would start its own threads in every worker
        encoded = [self._tokenizer.encode(line, add_special_tokens=False).ids for line in lines]
        ids, lengths = pack_rows(encoded)
        return self._replace_unknown(ids), lengths

    def encode_words(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Byte-level pieces include the space before a word."""
        if self.vocabulary.mark == SPACE_BYTE:
            words = [f" {word}" for word in words]
        return self.encode_lines(words)

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        offsets = pack_token_offsets([self._locate(line) for line in lines])
        return offsets._replace(ids=self._replace_unknown(offsets.ids))

    def _locate(self, line: str) -> list[TokenSpan]:
        encoded = self._tokenizer.encode(line, add_special_tokens=False)
        spans = (trim_span(line, span) for span in encoded.offsets)
        return [(token, *span) for token, span in zip(encoded.ids, spans, strict=True)]

    def _replace_unknown(self, ids: IntArray) -> IntArray:
        """The unknown id for ids that the model lacks, and for special ids, which are not text."""
        unknown = (ids >= len(self.vocabulary)) | np.isin(ids, self.vocabulary.special)
        return np.where(unknown, self.vocabulary.unk, ids)

    def encode_parsing_special(self, text: str) -> list[int]:
        """As in Transformers, but a letter right after a mask continues the word with ##."""
        mask, unknown = self.vocabulary.mask, self.vocabulary.unk
        name, continues = self.vocabulary.symbols[mask], self.vocabulary.mark == WORD_REST
        text = text.replace(MASK, name)
        first, *rest = text.split(name) if continues else [text]
        ids = self._parser.encode(first, add_special_tokens=False).ids
        for part in rest:
            ids += [mask, *encode_word_rest(self._parser, part, unknown)]
        return [i if i < len(self.vocabulary) else unknown for i in ids]

    @cached_property
    def _parser(self) -> HfTokenizer:
        """The tokenizer with its special tokens, and how they absorb the spaces around them."""
        parser, added = build_tokenizer(self.text), import_tokenizers().AddedToken
        known = {token.content for token in parser.get_added_tokens_decoder().values()}
        names = {self.vocabulary.symbols[i] for i in self.vocabulary.roles.values()} - known
        parser.add_special_tokens([added(name, normalized=False) for name in sorted(names)])
        return parser

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False)).strip()

    def settings(self) -> JsonObject:
        return {**super().settings(), "rows": len(self.vocabulary)}

    def save(self, folder: Path | str) -> None:
        """Write dict.txt, tokenizer_config.json and tokenizer.json."""
        super().save(folder)
        (Path(folder) / TOKENIZER_FILE).write_text(self.text, encoding="utf-8", newline="\n")

    @classmethod
    def _restore(
        cls, folder: Path, settings: JsonObject, symbols: Sequence[str]
    ) -> HuggingFaceTokenizer:
        text = read_bytes(folder / TOKENIZER_FILE).decode()
        tokenizer = cls(text, settings["special"], rows=int(settings["rows"]))
        if list(symbols) != tokenizer.vocabulary.symbols:
            raise ToolkitError(
                f"{folder / SYMBOLS_FILE} must list the symbols of {TOKENIZER_FILE}, but differs. "
                f"One of them was replaced: convert the model again."
            )
        return tokenizer


def build_tokenizer(text: str) -> HfTokenizer:
    """The tokenizer of a tokenizer.json, without padding and truncation."""
    package = import_tokenizers()
    try:
        tokenizer: HfTokenizer = package.Tokenizer.from_str(text)
    except Exception as error:  # the binding raises plain exceptions
        raise ToolkitError(
            f"{TOKENIZER_FILE} must describe a tokenizer, but the package tokenizers says: "
            f"{' '.join(str(error).split())[:200]}. Give the file that save_pretrained wrote."
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def find_word_mark(symbols: Sequence[str]) -> str:
    """The mark of most symbols, since any may also be an ordinary letter; empty if none is used."""
    used = (mark for mark in (WORD_START, SPACE_BYTE, WORD_REST) if uses_mark(symbols, mark))
    counts = {mark: sum(symbol.startswith(mark) for symbol in symbols) for mark in used}
    return max(counts, key=lambda mark: counts[mark], default="")


def list_symbols(ids: Mapping[str, int], rows: int | None) -> list[str]:
    """Symbols in order of their ids; ids without a symbol get a name that no text contains."""
    count = max(ids.values(), default=-1) + 1 if rows is None else rows
    symbols = [f"[no symbol {number}]" for number in range(count)]
    for symbol, number in ids.items():
        if number < count:
            symbols[number] = symbol
    return symbols

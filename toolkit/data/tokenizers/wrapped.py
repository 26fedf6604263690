"""Tokenizers that add labels, tags or a second language to another tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.common.arrays import IntArray
from toolkit.common.json_files import JsonObject
from toolkit.data.tokenizers.token_offsets import TokenOffsets
from toolkit.data.tokenizers.tokenizer import Tokenizer, find_tokenizer_class


class WrappedTokenizer(Tokenizer):
    """Reads text as `inner` does; `more_files` are the files that the subclass adds."""

    def __init__(self, inner: Tokenizer, *more_files: str) -> None:
        super().__init__(inner.vocabulary, lowercase=inner.lowercase)
        self.inner = inner
        self.files = (*inner.files, *more_files)

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray]:
        return self.inner.encode_lines(lines)

    def encode_words(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        return self.inner.encode_words(words)

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        return self.inner.encode_with_offsets(lines)

    def encode_parsing_special(self, text: str) -> list[int]:
        return self.inner.encode_parsing_special(text)

    def _decode(self, ids: Sequence[int]) -> str:
        return self.inner._decode(ids)

    def settings(self) -> JsonObject:
        return {**super().settings(), "inner": self.inner.settings()}

    def save(self, folder: Path | str) -> None:
        """Write the files of `inner`, with this tokenizer's own tokenizer_config.json."""
        self.inner.save(folder)
        super().save(folder)


def unwrap_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of plain text, without labels, tags or a second language."""
    while isinstance(tokenizer, WrappedTokenizer):
        tokenizer = tokenizer.inner
    return tokenizer


def restore_inner(folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
    """The inner tokenizer, from what `settings` wrote."""
    inner = {**settings["inner"], "special": settings["special"]}
    return find_tokenizer_class(inner.get("kind"), folder)._restore(folder, inner, symbols)

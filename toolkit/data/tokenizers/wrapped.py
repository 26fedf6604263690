"""A tokenizer that keeps another one and something of its own beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.data.tokenizers.token_offsets import TokenOffsets
from toolkit.data.tokenizers.tokenizer import Ids, Tokenizer, find_tokenizer_class


class WrappedTokenizer(Tokenizer):
    """Reads text as the tokenizer within it does."""

    def __init__(self, inner: Tokenizer, *own_files: str) -> None:
        super().__init__(inner.vocabulary, lowercase=inner.lowercase)
        self.inner = inner
        self.files = (*inner.files, *own_files)  # type: ignore[misc]

    def encode_lines(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        return self.inner.encode_lines(lines)

    def encode_words(self, words: Sequence[str]) -> tuple[Ids, Ids]:
        return self.inner.encode_words(words)

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        return self.inner.encode_with_offsets(lines)

    def encode_continuation(self, text: str) -> list[int]:
        return self.inner.encode_continuation(text)

    def _join(self, ids: Sequence[int]) -> str:
        return self.inner._join(ids)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "inner": self.inner.settings()}

    def save(self, folder: Path | str) -> None:
        """Writes the files of both; what is kept beside is for the one who knows it."""
        self.inner.save(folder)
        super().save(folder)


def unwrap_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of text alone, without labels, tags or another language."""
    return tokenizer.inner if isinstance(tokenizer, WrappedTokenizer) else tokenizer


def restore_inner(folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]) -> Tokenizer:
    """The tokenizer within, from what `settings` wrote."""
    inner = {**settings["inner"], "special": settings["special"]}
    return find_tokenizer_class(inner.get("kind"), folder)._restore(folder, inner, symbols)

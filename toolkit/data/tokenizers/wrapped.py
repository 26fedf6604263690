"""A codec that keeps another one and something of its own beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.data.tokenizers.token_offsets import Located
from toolkit.data.tokenizers.tokenizer import Codec, Ids, class_of


class WrappedCodec(Codec):
    """Reads text as the codec within it does."""

    def __init__(self, inner: Codec, *own_files: str) -> None:
        super().__init__(inner.vocabulary, lowercase=inner.lowercase)
        self.inner = inner
        self.files = (*inner.files, *own_files)  # type: ignore[misc]

    def encode_lines(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        return self.inner.encode_lines(lines)

    def encode_words(self, words: Sequence[str]) -> tuple[Ids, Ids]:
        return self.inner.encode_words(words)

    def locate_lines(self, lines: Sequence[str]) -> Located:
        return self.inner.locate_lines(lines)

    def continue_word(self, text: str) -> list[int]:
        return self.inner.continue_word(text)

    def _join(self, ids: Sequence[int]) -> str:
        return self.inner._join(ids)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "inner": self.inner.settings()}

    def save(self, folder: Path | str) -> None:
        """Writes the files of both; what is kept beside is for the one who knows it."""
        self.inner.save(folder)
        super().save(folder)


def bare(codec: Codec) -> Codec:
    """The codec of text alone, without labels, tags or another language."""
    return codec.inner if isinstance(codec, WrappedCodec) else codec


def inner_of(folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]) -> Codec:
    """The codec within, from what `settings` wrote."""
    inner = {**settings["inner"], "special": settings["special"]}
    return class_of(inner.get("kind"), folder)._restore(folder, inner, symbols)

"""Tokenizers that add labels, tags or a second language to another tokenizer; parallel text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.common.arrays import IntArray
from toolkit.common.json_files import JsonObject
from toolkit.data.tokenizers.offsets import TokenOffsets
from toolkit.data.tokenizers.tokenizer import Tokenizer, find_tokenizer_class
from toolkit.data.tokenizers.vocabulary import Vocabulary

TARGET = "target"
"""The subfolder with the tokenizer of the target language."""


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


def name_labels(names: Sequence[str]) -> JsonObject:
    """id2label and label2id of Transformers, from the names in order of their ids."""
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }


def unwrap_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of plain text, without labels, tags or a second language."""
    while isinstance(tokenizer, WrappedTokenizer):
        tokenizer = tokenizer.inner
    return tokenizer


def restore_inner(folder: Path, settings: JsonObject, symbols: Sequence[str]) -> Tokenizer:
    """The inner tokenizer, from what `settings` wrote."""
    inner = {**settings["inner"], "special": settings["special"]}
    return find_tokenizer_class(inner.get("kind"), folder)._restore(folder, inner, symbols)


class ParallelTokenizer(WrappedTokenizer):
    """Reads source text as `inner` does; `target` is the tokenizer of the other language.

    With a joined vocabulary, `target` is the inner tokenizer.
    """

    kind = "parallel"

    def __init__(
        self, inner: Tokenizer, target: Tokenizer | None, *, source_lang: str, target_lang: str
    ) -> None:
        super().__init__(inner, *(f"{TARGET}/{name}" for name in (target.files if target else ())))
        self.joined, self.target = target is None, target or inner
        self.source_lang, self.target_lang = self.language_pair = source_lang, target_lang
        self.languages = f"{source_lang}-{target_lang}"
        """The direction, such as de-en."""

    def vocabularies(self) -> dict[str, Vocabulary]:
        return {**super().vocabularies(), "targets": self.target.vocabulary}

    def describe_difference(self, other: Tokenizer) -> str:
        """Names of languages count only if they are swapped: `de` and `ger` may be the same."""
        others = other.language_pair or ()
        if (self.target_lang, self.source_lang) == others != self.language_pair:
            return f"one translates {self.languages}, the other {'-'.join(others)}"
        return super().describe_difference(other)

    def settings(self) -> JsonObject:
        languages = {"source_lang": self.source_lang, "target_lang": self.target_lang}
        return {**super().settings(), **languages, "joined": self.joined}

    def save(self, folder: Path | str) -> None:
        super().save(folder)
        if not self.joined:
            (own := Path(folder) / TARGET).mkdir(exist_ok=True)
            self.target.save(own)

    @classmethod
    def _restore(
        cls, folder: Path, settings: JsonObject, symbols: Sequence[str]
    ) -> ParallelTokenizer:
        target = None if settings["joined"] is True else Tokenizer.load(folder / TARGET)
        if isinstance(target, WrappedTokenizer):
            raise ValueError(f"{TARGET} must hold a tokenizer of plain text")
        languages = {name: str(settings[name]) for name in ("source_lang", "target_lang")}
        return cls(restore_inner(folder, settings, symbols), target, **languages)

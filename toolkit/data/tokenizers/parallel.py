"""Tokenizer of parallel text: source and target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.common.json_files import JsonObject
from toolkit.data.tokenizers.tokenizer import LanguagePair, Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.data.tokenizers.wrapped import WrappedTokenizer, restore_inner

TARGET = "target"
"""The subfolder with the tokenizer of the target language."""


class ParallelTokenizer(WrappedTokenizer):
    """Reads source text as `inner` does; `target` is the tokenizer of the other language.

    With a joined vocabulary, `target` is the inner tokenizer.
    """

    kind = "parallel"

    def __init__(
        self, inner: Tokenizer, target: Tokenizer | None, *, source_lang: str, target_lang: str
    ) -> None:
        super().__init__(inner)
        self.joined, self._target = target is None, target or inner
        self.source_lang, self.target_lang = source_lang, target_lang
        if target is not None:
            own = tuple(f"{TARGET}/{name}" for name in target.files)
            self.files = (*self.files, *own)

    @property
    def target(self) -> Tokenizer:
        return self._target

    @property
    def language_pair(self) -> LanguagePair:
        return self.source_lang, self.target_lang

    @property
    def languages(self) -> str:
        """The direction, such as de-en."""
        return f"{self.source_lang}-{self.target_lang}"

    def vocabularies(self) -> dict[str, Vocabulary]:
        return {**super().vocabularies(), "targets": self.target.vocabulary}

    def describe_difference(self, other: Tokenizer) -> str:
        """Names of languages count only if they are swapped: `de` and `ger` may be the same."""
        swapped = isinstance(other, ParallelTokenizer) and (
            (self.source_lang, self.target_lang) == (other.target_lang, other.source_lang)
        )
        if swapped and self.source_lang != self.target_lang:
            return (
                f"one translates {self.languages}, the other {self.target_lang}-{self.source_lang}"
            )
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

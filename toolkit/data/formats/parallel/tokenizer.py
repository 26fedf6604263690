"""The tokenizer of a parallel folder: that of the language that is read, and beside it the
other's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.data.storage.meta import TARGET
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import WrappedTokenizer, restore_inner


class ParallelTokenizer(WrappedTokenizer):
    """Reads text as the source's tokenizer does; `target` reads and writes the other language.

    Where both languages have one vocabulary, `target` is the tokenizer within.
    """

    kind = "parallel"

    def __init__(
        self, inner: Tokenizer, target: Tokenizer | None, *, source_lang: str, target_lang: str
    ) -> None:
        super().__init__(inner)
        self.joined, self.target = target is None, target or inner
        self.source_lang, self.target_lang = source_lang, target_lang
        if target is not None:
            own = tuple(f"{TARGET}/{name}" for name in target.files)
            self.files = (*self.files, *own)  # type: ignore[misc]

    @property
    def languages(self) -> str:
        """As de-en."""
        return f"{self.source_lang}-{self.target_lang}"

    @property
    def reverse(self) -> str:
        """Of de-en, en-de."""
        return f"{self.target_lang}-{self.source_lang}"

    def reverses(self, other: Tokenizer) -> bool:
        """Whether it is of the other's two languages, in the other direction."""
        if not isinstance(other, ParallelTokenizer) or self.source_lang == self.target_lang:
            return False
        return (self.source_lang, self.target_lang) == (other.target_lang, other.source_lang)

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "targets": len(self.target.vocabulary)}

    @property
    def fingerprint(self) -> str:
        return f"{self.vocabulary.fingerprint} {self.target.vocabulary.fingerprint}"

    def settings(self) -> dict[str, Any]:
        languages = {"source_lang": self.source_lang, "target_lang": self.target_lang}
        return {**super().settings(), **languages, "joined": self.joined}

    def save(self, folder: Path | str) -> None:
        super().save(folder)
        if not self.joined:
            (own := Path(folder) / TARGET).mkdir(exist_ok=True)
            self.target.save(own)

    @classmethod
    def _restore(
        cls, folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]
    ) -> ParallelTokenizer:
        target = None if settings["joined"] is True else Tokenizer.load(folder / TARGET)
        if isinstance(target, WrappedTokenizer):
            raise ValueError(f"{TARGET} must hold a tokenizer of text alone")
        languages = {name: str(settings[name]) for name in ("source_lang", "target_lang")}
        return cls(restore_inner(folder, settings, symbols), target, **languages)

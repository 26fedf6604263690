"""Text to ids and back: what a data folder and a checkpoint carry along to read new text."""

from __future__ import annotations

import importlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json
from toolkit.data.tokenizers.normalize import lower_without_accents
from toolkit.data.tokenizers.token_offsets import TokenOffsets
from toolkit.data.tokenizers.vocabulary import ROLES, Vocabulary, read_symbols, write_symbols

TOKENIZER_CONFIG_FILE, SYMBOLS_FILE = "tokenizer_config.json", "dict.txt"
MASK = "[MASK]"  # how every kind of text spells the mask, whatever the vocabulary calls it
KINDS = {
    "sentencepiece": ("toolkit.data.tokenizers.sentencepiece", "SentencePieceTokenizer"),
    "dictionary": ("toolkit.data.tokenizers.word_level", "WordLevelTokenizer"),
    "wordpiece": ("toolkit.data.tokenizers.wordpiece", "WordPieceTokenizer"),
    "tokenizer": ("toolkit.data.tokenizers.huggingface", "HuggingFaceTokenizer"),
    "labeled": ("toolkit.data.formats.classification.tokenizer", "ClassificationTokenizer"),
    "parallel": ("toolkit.data.formats.parallel.tokenizer", "ParallelTokenizer"),
    "tagged": ("toolkit.data.formats.tagging.tokenizer", "TaggingTokenizer"),
}

Ids = npt.NDArray[np.int64]


class Tokenizer(ABC):
    """A vocabulary and the rule by which text becomes its ids.

    Kinds are told apart by `kind` in tokenizer_config.json; one without it is of the oldest kind.
    """

    kind: ClassVar[str]
    files: ClassVar[tuple[str, ...]] = (SYMBOLS_FILE, TOKENIZER_CONFIG_FILE)
    """What `save` writes."""

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool) -> None:
        self.vocabulary, self.lowercase = vocabulary, lowercase

    @abstractmethod
    def encode_lines(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        """All ids back to back, and how many each line has; no special symbols kind them."""

    @abstractmethod
    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        """The same ids, and the characters of its line that each stands for."""

    @abstractmethod
    def encode_continuation(self, text: str) -> list[int]:
        """Ids of text that goes on with a word begun before it, as in [MASK]s."""

    @abstractmethod
    def _join(self, ids: Sequence[int]) -> str:
        """Text of ids without special ones."""

    @classmethod
    @abstractmethod
    def _restore(
        cls, folder: Path, settings: Mapping[str, Any], symbols: Sequence[str]
    ) -> Tokenizer: ...

    def encode(self, text: str) -> list[int]:
        """Ids of the text, no special symbols kind them."""
        ids, _ = self.encode_lines([text])
        return ids.tolist()

    def encode_words(self, words: Sequence[str]) -> tuple[Ids, Ids]:
        """As `encode_lines`, but each line a word that others stand before in its sentence."""
        return self.encode_lines(words)

    def encode_parsing_special(self, text: str) -> list[int]:
        """As `encode`, but special symbols in the text stand for themselves, and [MASK] too."""
        symbols, mask = self.vocabulary.symbols, self.vocabulary.mask
        names = {MASK: mask, **{symbols[i]: i for i in self.vocabulary.special}}
        pieces = re.split("(" + "|".join(map(re.escape, names)) + ")", text)
        return [i for p in pieces for i in ([names[p]] if p in names else self.encode(p))]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids; special symbols appear by name, between spaces."""
        symbols, special = self.vocabulary.symbols, set(self.vocabulary.special)
        words = []
        for marked, run in groupby(ids, special.__contains__):
            found = list(run)
            words += [symbols[i] for i in found] if marked else [self._join(found)]
        return " ".join(words)

    @property
    def sizes(self) -> dict[str, int]:
        """What a model must know of it: how many symbols there are, and what other kinds add."""
        return {"tokens": len(self.vocabulary)}

    @property
    def fingerprint(self) -> str:
        """Changes when ids mean something else."""
        return self.vocabulary.fingerprint

    def normalize(self, text: str) -> str:
        """The text in the case that the vocabulary knows."""
        return lower_without_accents(text) if self.lowercase else text

    def settings(self) -> dict[str, Any]:
        """What tokenizer_config.json says."""
        return {
            "kind": self.kind,
            "lowercase": self.lowercase,
            "special": self.vocabulary.roles,
        }

    def save(self, folder: Path | str) -> None:
        """dict.txt and tokenizer_config.json; kinds that need more add it."""
        folder = Path(folder)
        (folder / SYMBOLS_FILE).write_text(
            write_symbols(self.vocabulary.symbols), encoding="utf-8", newline="\n"
        )
        (folder / TOKENIZER_CONFIG_FILE).write_text(json.dumps(self.settings(), indent=2) + "\n")

    @staticmethod
    def load(folder: Path | str) -> Tokenizer:
        """The tokenizer that a data folder or a checkpoint holds, of whatever kind."""
        folder = Path(folder)
        kind: Any = "sentencepiece"
        try:
            settings = read_json(folder / TOKENIZER_CONFIG_FILE)
            symbols = read_symbols((folder / SYMBOLS_FILE).read_text(encoding="utf-8"))
            kind = settings.get("kind", kind)
            settings["special"] = {role: int(settings["special"][role]) for role in ROLES}
            return find_tokenizer_class(kind, folder)._restore(folder, settings, symbols)
        except ToolkitError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            files = find_tokenizer_class(kind, folder).files
            raise ToolkitError(
                f"{folder} must hold a readable {', '.join(files)}, but does not ({error}). "
                f"Run toolkit-preprocess again."
            ) from error


def find_tokenizer_class(kind: Any, folder: Path) -> type[Tokenizer]:
    if not isinstance(kind, str) or kind not in KINDS:
        raise ToolkitError(
            f"the kind in {folder / TOKENIZER_CONFIG_FILE} must be one of {', '.join(KINDS)}, but "
            "is "
            f"{kind!r}. It may be a newer toolkit's: upgrade, or run toolkit-preprocess again."
        )
    module, name = KINDS[kind]
    found: type[Tokenizer] = getattr(importlib.import_module(module), name)
    return found

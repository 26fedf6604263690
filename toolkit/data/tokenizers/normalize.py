"""Text before it is tokenized: lower case without accents, line breaks, words to train on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from toolkit.common.errors import ToolkitError

MAX_WORD_CHARACTERS = 256
"""Longer words are split for training, including text without spaces."""


def lower_without_accents(text: str) -> str:
    """NFKD without combining marks, in lower case, as ALBERT (Lan et al. 2020) and Chang et al.
    2021 (released code) prepare uncased text."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c)).lower()


def replace_line_breaks(text: str) -> str:
    """Replace each white-space character by a space, which keeps the offsets of all characters.

    Surrogates and NUL, which JSON can encode but no text contains, become replacement characters.
    """
    return re.sub("[\0\ud800-\udfff]", "\ufffd", re.sub(r"\s", " ", text))


def to_line(text: str) -> str:
    """The text on one line, without surrounding white space."""
    return replace_line_breaks(text).strip()


def check_texts(texts: Iterable[object]) -> list[str]:
    """The texts as a list of at least one string; raises for anything else."""
    if isinstance(texts, str):
        raise ToolkitError("texts must be a list, but is a single text. Put it in brackets.")
    checked = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ToolkitError(
                f"texts must be strings, but text {index} is of type {type(text).__name__}."
            )
        checked.append(text)
    if not checked:
        raise ToolkitError("texts must be a list with at least one text, but is empty.")
    return checked


def clean_texts(texts: Iterable[object]) -> list[str]:
    """The texts as lines; blank ones are left out."""
    lines = [line for text in check_texts(texts) if (line := to_line(text))]
    if not lines:
        raise ToolkitError("texts must have at least one that is not blank, but have none.")
    return lines


def split_long_words(item: str) -> str:
    """Split words after MAX_WORD_CHARACTERS, and keep each distinct part of a word once.

    Training does not end in reasonable time on a word of a million characters.
    """
    if len(item) <= MAX_WORD_CHARACTERS:
        return item
    size = MAX_WORD_CHARACTERS
    words = (
        dict.fromkeys(w[i : i + size] for i in range(0, len(w), size)) for w in item.split(" ")
    )
    return " ".join(part for parts in words for part in parts)

"""Messages of toolkit-preprocess: progress, malformed rows and questions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer

PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}


def log_training(what: str, items: Sequence[str]) -> None:
    """Log the amount of text; the training itself does not report progress."""
    characters = sum(map(len, items))
    print(
        f"training {what} on {len(items):,} item{'s' * (len(items) != 1)}, "
        f"{characters / 1e6:.1f} M characters",
        file=sys.stderr,
    )


def log_trained(what: str, tokenizer: Tokenizer, vocab_size: int, seconds: float) -> None:
    """Log the duration, and whether the vocabulary reached the requested size."""
    words = tokenizer.vocabulary
    added = {*words.special, words.unk} if what == "WordPiece" else set(words.special)
    pieces = len(words) - len(added)
    short = f"; the text has no more, {vocab_size} were requested"
    print(
        f"trained {pieces} {what} pieces in {seconds:.1f} s{short if pieces < vocab_size else ''}",
        file=sys.stderr,
    )


def log_word_counts(counts: Mapping[str, int], tokenizer: Tokenizer, seconds: float) -> None:
    """Log the number of words, and the fraction of the text that the known words cover."""
    words = tokenizer.vocabulary
    reserved = (*words.special, words.unk)
    kept = [symbol for i, symbol in enumerate(words.symbols) if i not in reserved]
    total, known = sum(counts.values()), sum(counts[word] for word in kept)
    print(
        f"counted {total:,} words, {len(counts):,} different ones, in {seconds:.1f} s; the "
        f"{len(kept):,} kept are {known / max(1, total):.2%} of the text",
        file=sys.stderr,
    )


MAX_LISTED = 5
"""Problems of one kind that are printed for each split; the JSON records list all."""
MAX_QUOTED = 40
"""Characters of an invalid value that an error quotes."""


class Problem(NamedTuple):
    """A malformed row, question or file."""

    path: Path
    where: str
    """Its line, or its place among the questions."""
    what: str
    kept: bool = False
    """Whether a question stays, because it is only used for evaluation."""
    lost: int = 1
    """Number of rows or questions that are left out because of it, as far as known."""

    def __str__(self) -> str:
        return f"{self.path}:{self.where}: {self.what}"


def raise_malformed(problems: Sequence[Problem], *, skippable: bool) -> NoReturn:
    """Report the first problem of a file and the number of problems."""
    count = f" The file has {len(problems):,} such problems." if len(problems) > 1 else ""
    advice = "Correct it, or give --on-malformed skip." if skippable else "Correct it."
    raise ToolkitError(f"{problems[0]}{count} {advice}")


def list_first(split: str, handled: str, problems: Sequence[object]) -> Iterator[str]:
    """The first problems as lines, and the number of the others."""
    lines = list(dict.fromkeys(map(str, problems)))
    yield from (f"{handled} {line}" for line in lines[:MAX_LISTED])
    if len(lines) > MAX_LISTED:
        yield f"and {len(lines) - MAX_LISTED:,} more of {split} {handled.rstrip(':')}"

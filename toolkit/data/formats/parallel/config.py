"""Options of parallel text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolkit.config.declared import NonNegativeInt, Options


@dataclass(frozen=True, kw_only=True)
class ParallelFormatConfig(Options, section="format"):
    """Options of the format for parallel text."""

    source_lang: str = ""
    """Source language, such as de. trainpref P stands for the files P.de and P.en, plain, .gz,
    .xz or .zst, whose lines correspond."""
    target_lang: str = ""
    """Target language, such as en."""
    joined_dictionary: bool = False
    """Learn one vocabulary from both languages, so that models may share embedding tables, instead
    of those of the following options."""
    tgtdict: str | None = None
    """Vocabulary of target words to use, as srcdict is that of source words; learned by default."""
    target_sentencepiece_model: str | None = None
    """SentencePiece model of the target language, as sentencepiece-model is that of the source."""
    max_item_tokens: NonNegativeInt = 0
    """Maximum number of tokens on either side of a pair, without special symbols; 0 for no
    limit."""
    overlength: Literal["error", "skip", "truncate"] = "error"
    """How to handle pairs with a side that exceeds the limit. error: stop and name the line. skip:
    leave them out. truncate: drop the tail of the side."""

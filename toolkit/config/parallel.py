"""Options of toolkit-preprocess that text in two languages, line by line, has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolkit.config.sections import require

PARALLEL = "parallel"
PARALLEL_ONLY = dict.fromkeys(
    ("joined_dictionary", "tgtdict", "target_sentencepiece_model"), (PARALLEL,)
)


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """Fields that only format parallel uses."""

    source_lang: str = ""
    """Language that is read, such as de. With it and target-lang the text is parallel: trainpref P
    stands for the files P.de and P.en, plain, .gz or .xz, whose lines belong together."""
    target_lang: str = ""
    """Language that is written, such as en."""
    joined_dictionary: bool = False
    """Parallel text: learn one vocabulary from both languages, so that models may share tables."""
    tgtdict: str | None = None
    """Parallel text: dictionary of the target's words to use, as srcdict is that of the source's;
    without it one is learnt."""
    target_sentencepiece_model: str | None = None
    """Parallel text: SentencePiece model of the target, as sentencepiece-model is the source's."""

    def check_parallel(self) -> None:
        """Rules for these options; called where the others are checked."""
        form: Any = getattr(self, "format", "text")
        both = self.source_lang and self.target_lang
        require(
            form in ("text", PARALLEL) or not (self.source_lang or self.target_lang),
            f"source_lang and target_lang must come with parallel text, but the format is {form}. "
            f"Leave them out.",
        )
        require(
            bool(both) or not (self.source_lang or self.target_lang or form == PARALLEL),
            "source_lang and target_lang must both be given for parallel text, but "
            f"{'target_lang' if self.source_lang else 'source_lang'} is missing. Name both.",
        )
        require(
            not both or self.source_lang != self.target_lang,
            f"source_lang and target_lang must be two languages, but both are {self.source_lang}.",
        )
        if both:  # the two languages say the format
            object.__setattr__(self, "format", PARALLEL)

    def check_target(self, kind: str) -> None:
        """Rules for a vocabulary of the target's own, `kind` being the tokenizer."""
        for name, of in (("tgtdict", "words"), ("target_sentencepiece_model", "sentencepiece")):
            given = getattr(self, name) is not None
            require(
                not (given and self.joined_dictionary),
                f"{name} must be left out with joined_dictionary, but both are given: one "
                f"vocabulary serves both languages.",
            )
            require(
                not given or kind == of,
                f"{name} must come with tokenizer {of}, but that is {kind}. Give --tokenizer {of}.",
            )

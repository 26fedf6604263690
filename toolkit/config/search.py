"""Options of the search for what a model writes."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from toolkit.config.sections import require

STEEPEST = 50.0
"""Higher powers of the length of a text could not be told as numbers."""


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    beam: int = 5
    """Hypotheses that are followed at once for each sentence, at least 1; 1 takes the most probable
    symbol every time. With --sampling, how many are drawn."""
    nbest: int = 1
    """Hypotheses to give for each sentence, at most --beam."""
    lenpen: float = 1.0
    """Power of its length by which the log-probability of a hypothesis is divided. Above 1 favours
    long ones, 0 divides by nothing."""
    max_len_a: float = 0.0
    """a of a x + b, the most symbols of a hypothesis; x is the length of the source, or of a
    language model's prompt, which itself is not counted."""
    max_len_b: int = 200
    """b of --max-len-a."""
    min_len: int = 1
    """Fewest symbols of a hypothesis, its end not counted."""
    no_repeat_ngram_size: int = 0
    """Symbols in a row that must not come twice in a hypothesis; 0 allows everything."""
    sampling: bool = False
    """Draw symbols by their probability instead of searching for the best."""
    sampling_topk: int = 0
    """Draw only from so many of the most probable symbols; 0 for all."""
    sampling_topp: float = 1.0
    """Draw only from the fewest symbols that have this probability together, 0 to 1."""
    temperature: float = 1.0
    """What scores are divided by before symbols are drawn: below 1 makes the probable ones more
    so."""
    seed: int = 1
    """Seed of the draws. A sentence gets the same ones, whatever else is in its batch."""
    diverse_beam_groups: int = 1
    """Groups that the beam is parted into, each of which avoids what those before it write at the
    same place (Vijayakumar et al. 2018). Divides --beam."""
    diverse_beam_strength: float = 0.5
    """By how much a symbol's log-probability is lowered for each hypothesis of the groups before
    that writes it."""

    def __post_init__(self) -> None:
        for name in ("beam", "nbest", "diverse_beam_groups"):
            value = getattr(self, name)
            require(value > 0, f"{name} must be at least 1, but is {value}.")
        for name in ("min_len", "no_repeat_ngram_size", "sampling_topk", "max_len_a", "max_len_b"):
            value = getattr(self, name)
            require(value >= 0, f"{name} must not be negative, but is {value}.")
        for name in ("max_len_a", "temperature", "diverse_beam_strength"):
            value = getattr(self, name)
            require(isfinite(value), f"{name} must be a finite number, but is {value}.")
        require(
            abs(self.lenpen) <= STEEPEST,
            f"lenpen must lie between -{STEEPEST:g} and {STEEPEST:g}, but is {self.lenpen}.",
        )
        require(
            self.nbest <= self.beam,
            f"nbest must be at most beam, but is {self.nbest} with beam {self.beam}. Raise --beam.",
        )
        require(self.temperature > 0, f"temperature must be above 0, but is {self.temperature}.")
        require(
            0 < self.sampling_topp <= 1,
            f"sampling_topp must lie between 0 and 1, but is {self.sampling_topp}.",
        )
        require(
            self.beam % self.diverse_beam_groups == 0,
            f"beam must be a multiple of diverse_beam_groups, but {self.beam} is none of "
            f"{self.diverse_beam_groups}. Change one of them.",
        )
        self._refuse_unused()

    def _refuse_unused(self) -> None:
        """An option that would change nothing is a misunderstanding."""
        drawn = (self.sampling_topk, self.sampling_topp, self.temperature) != (0, 1.0, 1.0)
        require(
            self.sampling or not drawn,
            "sampling must be on where sampling_topk, sampling_topp or temperature is given, but "
            "is off. Add --sampling.",
        )
        require(
            self.diverse_beam_groups > 1 or self.diverse_beam_strength == 0.5,
            f"diverse_beam_groups must be 2 or more where diverse_beam_strength is given, but is "
            f"{self.diverse_beam_groups}. Raise it.",
        )
        require(
            not (self.sampling and self.diverse_beam_groups > 1),
            f"diverse_beam_groups must be 1 with sampling, but is {self.diverse_beam_groups}. "
            f"Leave one of them out.",
        )

    def most(self, length: int) -> int:
        """The most symbols of a hypothesis for a source of so many."""
        return int(self.max_len_a * length + self.max_len_b)

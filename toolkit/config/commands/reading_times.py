"""Options of toolkit-validate --task reading_times and --task age_of_acquisition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from toolkit.config.commands.checkpoints import OWN_TASK
from toolkit.config.commands.generate import SurprisalOptions
from toolkit.config.declared import ADVANCED, MULTI_WORD, NO_SPLIT, Tokens
from toolkit.config.sections import DeviceOptions, OutputOptions, WeightsOptions


@dataclass(frozen=True, kw_only=True)
class ReadingTimesConfig(
    SurprisalOptions,
    WeightsOptions,
    DeviceOptions,
    OutputOptions,
    required={
        "files": "Name a table of reading times, before --path.",
        "path": "--path is required: the checkpoints to evaluate.",
    },
    positional="files",
):
    """Options of toolkit-validate --task reading_times."""

    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Tables (.csv, .tsv or JSON lines) with the columns sentence, word, context_length (the index
    of the word, from 0), measures, and log_frequency or Subtlex_log10 unless --frequencies is
    given."""
    task: Annotated[Literal["reading_times"], OWN_TASK] = field(
        default="reading_times", metadata=ADVANCED
    )
    """Evaluate with reading times. Without this option, checkpoints are evaluated with their own
    task."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, for their best one, to evaluate."""
    measures: list[str] = field(default_factory=list)
    """Columns to predict. Default: those of the BabyLM challenge that the table has: RTfirstfix,
    RTfirstpass, RTgopast, RTrightbound, self_paced_reading_time, ELAN, LAN, N400, P600, EPNP, PNP.
    """
    max_tokens: Tokens = 4096
    """Maximum tokens per batch."""
    results_path: str | None = None
    """File for the results as JSON lines, one per checkpoint."""


@dataclass(frozen=True, kw_only=True)
class AcquisitionConfig(
    SurprisalOptions,
    WeightsOptions,
    DeviceOptions,
    OutputOptions,
    required={
        "files": "Name a table of words in sentences, before --path.",
        "path": "--path is required: the save folders whose checkpoints are evaluated.",
    },
    positional="files",
):
    """Options of toolkit-validate --task age_of_acquisition."""

    all_checkpoints: ClassVar[bool] = True
    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Tables (.csv, .tsv or JSON lines) with the columns sentence, word, context_length (the index
    of the word, from 0) and --age. The surprisal of a word is its mean over its rows."""
    task: Annotated[Literal["age_of_acquisition"], OWN_TASK] = field(
        default="age_of_acquisition", metadata=ADVANCED
    )
    """Estimate when a run learned each word: how many words it had seen when its surprisal crossed
    half way from chance to its last value, by a sigmoid."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Save folders of runs that counted words, with four or more checkpoints (--save-at-words)."""
    age: str = "age"
    """Column with the age at which people learn the word; empty if it is unknown."""
    max_tokens: Tokens = 4096
    """Maximum tokens per batch."""
    results_path: str | None = None
    """File to which the surprisals of each checkpoint are added, as JSON lines; those that it has
    are not computed again."""

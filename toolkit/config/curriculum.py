"""Options of a curriculum: the order of examples in the first epochs."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.config.declared import ADVANCED, Options, PositiveInt


@dataclass(frozen=True, kw_only=True)
class CurriculumOptions(Options, title="curriculum"):
    """Options of batches that are sorted from easy to difficult."""

    curriculum: str = field(default="", metadata=ADVANCED)
    """Sort the batches of the first epochs from easy to difficult. length: by tokens; rarity: by
    the sum of -log frequency of the tokens (Platanios et al. 2019), for tasks on plain text; or a
    file with a number for each example of the training split, in order, one per line."""
    curriculum_epochs: PositiveInt = field(default=1, metadata=ADVANCED)
    """Number of epochs that --data.curriculum sorts; later ones are shuffled."""

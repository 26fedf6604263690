"""Sentences twice: with hidden tokens, and with hidden positions (TACO, section 3.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.config.sections import require
from toolkit.criteria import IGNORED
from toolkit.data.samples.position_masking import PositionMasking
from toolkit.data.storage.data_folder import DataFolder
from toolkit.models.interface import Inputs
from toolkit.tasks.batch import MaskedBatch
from toolkit.tasks.pretraining.masked_examples import MaskingConfig, MaskingExamples, Numbers

OBJECTIVES = ("mlm", "mpm")
POSITION_RANGES = ("sentence", "table")


@dataclass(frozen=True, kw_only=True)
class MaskedPositionConfig(MaskingConfig):
    masking: str = "span"
    """Which tokens are hidden. span: SpanBERT's runs of words, as in TACO; bernoulli: each on its
    own; exact: an exact share; whole_word: all of a word's pieces; electra: as ELECTRA does."""
    objectives: str = "mlm,mpm"
    """What is learned, separated by commas. mlm: hidden tokens; mpm: hidden positions."""
    position_rate: float = 0.15
    """Share of positions to predict, 0 to 1."""
    position_span_max: int = 6
    """Longest run of positions that is chosen at a time."""
    position_span_p: float = 0.2
    """Parameter of the geometric law of these runs' lengths."""
    hidden_position_rate: float = 0.8
    """Share of the runs whose positions are hidden."""
    shuffled_position_rate: float = 0.1
    """Share of the runs whose positions are put in another order; the rest is shown as it is."""
    position_range: str = "sentence"
    """Where the position shown for a shuffled run of one comes from. sentence: any of the
    sentence's; table: any of 0 to max_position, as in the paper, far outside most sentences."""
    max_position: int = 511
    """Highest position that position_range table draws; the architecture must have it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [name for name in self.objective_names if name not in OBJECTIVES]
        require(
            bool(self.objective_names) and not unknown,
            f"task.objectives must name mlm, mpm or both, but is {self.objectives!r}.",
        )
        for name in ("position_rate", "position_span_p"):
            value = getattr(self, name)
            require(0 < value < 1, f"task.{name} must lie between 0 and 1, but is {value}.")
        for name in ("position_span_max", "max_position"):
            value = getattr(self, name)
            require(value > 0, f"task.{name} must be at least 1, but is {value}.")
        shown = (self.hidden_position_rate, self.shuffled_position_rate)
        require(
            min(shown) >= 0 and sum(shown) <= 1,
            f"task.hidden_position_rate and shuffled_position_rate must be shares that sum to at "
            f"most 1, but are {shown[0]} and {shown[1]}.",
        )
        require(
            self.position_range in POSITION_RANGES,
            f"task.position_range must be one of {', '.join(POSITION_RANGES)}, but is "
            f"{self.position_range!r}.",
        )

    @property
    def objective_names(self) -> list[str]:
        return [name.strip() for name in self.objectives.split(",") if name.strip()]


class MaskedPositionsBatch(NamedTuple):
    """Sentences with hidden tokens, then the same with hidden positions: one pass for both."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Selected places of the first half as flat indices, then those of the second half."""
    token_targets: Int[Tensor, " M"]
    """True tokens of the first places; IGNORED in rows that only fill up."""
    position_targets: Int[Tensor, " P"]
    """True positions of the other places; IGNORED in rows that only fill up."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class MaskedPositionExamples(MaskingExamples):
    """The sentences of one split; every collation hides tokens and positions anew."""

    def __init__(
        self,
        config: MaskedPositionConfig,
        folder: DataFolder,
        split: str,
        *,
        seed: int,
        training: bool,
        fixed_shapes: bool,
    ) -> None:
        super().__init__(
            config, folder, split, seed=seed, training=training, fixed_shapes=fixed_shapes
        )
        self._wanted = config.objective_names
        self._positions = PositionMasking(
            tokens_per_sample=config.tokens_per_sample,
            rate=config.position_rate,
            span_max=config.position_span_max,
            span_p=config.position_span_p,
            hidden_rate=config.hidden_position_rate,
            shuffled_rate=config.shuffled_position_rate,
            random_below=config.max_position + 1 if config.position_range == "table" else None,
        )

    def collate(self, ids: Numbers, epoch: int | None) -> MaskedPositionsBatch:
        """Both halves, or the one that is wanted; without ids an idle rank's, of weight zero."""
        if len(ids) == 0:
            return to_idle_halves(self.mask_both(np.zeros(1, np.int64), None))
        return self.mask_both(ids, epoch)

    def mask_both(self, ids: Numbers, epoch: int | None) -> MaskedPositionsBatch:
        make = {"mlm": self.mask_tokens, "mpm": self.mask_positions}
        return concatenate_halves({name: make[name](ids, epoch) for name in self._wanted})

    def mask_positions(self, ids: Numbers, epoch: int | None) -> MaskedBatch:
        """The sentences with hidden positions, which are to be found."""
        sentences, noise = self.draw(ids, epoch)
        shown, chosen = self._positions.apply(sentences, noise)
        tokens = sentences.tokens
        return self.to_batch(
            "mpm", sentences, chosen, chosen.positions, tokens=tokens, positions=shown
        )


def concatenate_halves(halves: dict[str, MaskedBatch]) -> MaskedPositionsBatch:
    """The halves one below the other; hidden tokens stand at their true positions."""
    nothing = torch.zeros(0, dtype=torch.long)
    words, order = halves.get("mlm"), halves.get("mpm")
    some = list(halves.values())
    if words is None or order is None:
        inputs, places = some[0].inputs, some[0].selected
    else:
        inputs = concatenate_inputs(words.inputs, order.inputs)
        places = torch.cat([words.selected, order.selected + words.inputs.tokens.numel()])
    return MaskedPositionsBatch(
        inputs=inputs,
        selected=places,
        token_targets=nothing if words is None else words.targets,
        position_targets=nothing if order is None else order.targets,
        weights={name: half.weights[name] for name, half in halves.items()},
        sentences=some[0].sentences,
        tokens=sum(half.tokens for half in some),
    )


def concatenate_inputs(first: Inputs, second: Inputs) -> Inputs:
    assert second.positions is not None, "the second half has hidden positions"
    in_order = torch.arange(first.tokens.shape[1]).expand_as(first.tokens)
    padding, types = first.padding, first.segments
    return Inputs(
        tokens=torch.cat([first.tokens, second.tokens]),
        positions=torch.cat([in_order, second.positions]),
        segments=None if types is None else torch.cat([types, types]),
        padding=None if padding is None else torch.cat([padding, padding]),
    )


def to_idle_halves(batch: MaskedPositionsBatch) -> MaskedPositionsBatch:
    return batch._replace(
        token_targets=torch.full_like(batch.token_targets, IGNORED),
        position_targets=torch.full_like(batch.position_targets, IGNORED),
        weights=dict.fromkeys(batch.weights, 0.0),
        sentences=0,
        tokens=0,
    )

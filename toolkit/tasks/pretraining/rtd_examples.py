"""Sentences for a generator to fill in and for a discriminator to look through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import require
from toolkit.criteria import IGNORED
from toolkit.data.samples.masking import SAMPLE, HashNoise
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.models.interface import Inputs
from toolkit.tasks.pretraining.masked_examples import MaskingConfig, MaskingExamples, Numbers

ROWS_PER_CHUNK = 64
"""Places whose tokens are drawn together."""
BELOW_ONE = 1 - 2**-22
"""The largest share of a sum in fp32 that is surely less than the sum."""


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenConfig(MaskingConfig):
    masking: str = "electra"
    """Which tokens the generator fills in. electra: drawn with replacement, as in ELECTRA; exact:
    an exact share; bernoulli: each on its own; whole_word: all of a word's pieces; span: runs."""
    generator_size: float = 0.25
    """The generator's widths and heads as a share of the model's, above 0 up to 1; one head at
    least. The paper has 0.25 for small models and 0.3333 for base."""
    discriminator_weight: float = 50.0
    """Factor of the loss of finding replaced tokens; that of filling in is 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            0 < self.generator_size <= 1,
            f"task.generator_size must lie above 0 and be at most 1, but is {self.generator_size}.",
        )
        require(
            self.discriminator_weight > 0,
            f"task.discriminator_weight must be positive, but is {self.discriminator_weight}. For "
            "filling "
            f"in alone use --task mlm.",
        )


class ReplacedTokensBatch(NamedTuple):
    """Sentences with hidden tokens, and for each of them what chance has."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Selected places as flat indices into B x S; rows beyond the last target repeat place 0."""
    targets: Int[Tensor, " N"]
    """True token of each selected place; IGNORED (-100) in the rows that only fill up."""
    draws: Float[Tensor, " N"]
    """A uniform number in [0, 1) for each selected place, the same for the same place."""
    weights: dict[str, float]
    sentences: int
    tokens: int

    @property
    def original(self) -> Int[Tensor, " BS"]:
        """The sentences with their true tokens, one behind the other."""
        return self.with_tokens(self.targets)

    def with_tokens(self, new: Int[Tensor, " N"]) -> Int[Tensor, " BS"]:
        """The sentences with others at all selected places; rows that only fill up do nothing."""
        tokens = self.inputs.tokens.flatten()
        kept = tokens.index_select(0, self.selected)
        return tokens.scatter(0, self.selected, torch.where(self.targets == IGNORED, kept, new))

    def labels(self, shown: Int[Tensor, " BS"]) -> Int[Tensor, " BS"]:
        """1 where a token is not the true one; IGNORED in padding and for an idle rank."""
        labels = (shown != self.original).long()
        if not self.weights["rtd"]:
            return torch.full_like(labels, IGNORED)
        padding = self.inputs.padding
        return labels if padding is None else labels.masked_fill(padding.flatten(), IGNORED)


class ReplacedTokenExamples(MaskingExamples):
    """The sentences of one split; every collation hides some of their tokens anew."""

    def __init__(
        self,
        config: MaskingConfig,
        folder: DataFolder,
        split: str,
        *,
        seed: int,
        training: bool,
        fixed_shapes: bool,
    ) -> None:
        check_mask_token(folder.vocabulary, folder.name)
        super().__init__(
            config, folder, split, seed=seed, training=training, fixed_shapes=fixed_shapes
        )

    def collate(self, ids: Numbers, epoch: int | None) -> ReplacedTokensBatch:
        """Filling in counts for each selected place, finding for each token that is no padding.

        Without ids an idle rank's batch of weight zero.
        """
        idle = len(ids) == 0
        ids, epoch = (np.zeros(1, np.int64), None) if idle else (ids, epoch)
        batch = self.mask_tokens(ids, epoch)
        rows, places = np.divmod(batch.selected.numpy(), batch.inputs.tokens.shape[1])
        draws = HashNoise(self._seed, epoch if self._training else None, ids).at(
            SAMPLE, rows, places
        )
        weights = {**batch.weights, "rtd": float(batch.tokens)}
        return ReplacedTokensBatch(
            inputs=batch.inputs,
            selected=batch.selected,
            targets=torch.full_like(batch.targets, IGNORED) if idle else batch.targets,
            draws=torch.from_numpy(draws.astype(np.float32)),
            weights=dict.fromkeys(weights, 0.0) if idle else weights,
            sentences=0 if idle else batch.sentences,
            tokens=0 if idle else batch.tokens,
        )


def check_mask_token(vocabulary: Vocabulary, name: str) -> None:
    """[MASK] must be a symbol of its own: the generator is asked for what stands there."""
    others = {role: i for role, i in vocabulary.roles.items() if role != "mask"}
    taken = [role for role, i in others.items() if i == vocabulary.mask]
    if taken:
        raise ToolkitError(
            f"task rtd must have a vocabulary with a symbol of its own for [MASK], but in that of "
            f"{name} it is the same as that of {taken[0]}, "
            f"{vocabulary.symbols[vocabulary.mask]!r}. Run toolkit-preprocess with a vocabulary "
            f"that has one."
        )


@torch.no_grad()
def sample_tokens(logits: Float[Tensor, "N V"], draws: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """argmax_v (logits_v + g_v), g Gumbel noise: v with probability softmax(logits)_v.

    Found by inverting the distribution function, for which one uniform number for each place is
    enough (Clark et al. 2020's code draws V). No gradient passes. Of logits that are not
    finite it is any symbol: the loss tells of them.
    """
    found = []
    for rows, shares in zip(logits.split(ROWS_PER_CHUNK), draws.split(ROWS_PER_CHUNK), strict=True):
        sums = rows.float().softmax(-1).cumsum(-1)
        wanted = shares.clamp(max=BELOW_ONE)[:, None] * sums[:, -1:]
        places = torch.searchsorted(sums, wanted, right=True)[:, 0]
        found.append(places.clamp(max=sums.shape[-1] - 1))
    return torch.cat(found)

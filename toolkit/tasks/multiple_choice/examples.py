"""Questions with all their options, put into batches: every option is a row beside its passage.

N questions of the batch   B their options   O options of the question that has most
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.formats.qa.split import ChoiceSplit
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.ragged import ragged_arange
from toolkit.data.samples.sequence_pairs import SPECIAL_OF_PAIR, join_pairs, truncate_longest_first
from toolkit.data.samples.text_samples import describe_truncation
from toolkit.models.interface import Inputs
from toolkit.tasks.glue.examples import to_inputs
from toolkit.tasks.multiple_choice.config import MultipleChoiceConfig

OBJECTIVE = "choice"
NO_OPTION = -1
Numbers = npt.NDArray[np.int64]


class MultipleChoiceBatch(NamedTuple):
    """Options beside their passages, and which are right."""

    inputs: Inputs
    selected: Int[Tensor, " B"]
    """First token of each row, as flat indices into B x S."""
    option_rows: Int[Tensor, "N O"]
    """Row of each option; -1 where a question has fewer."""
    targets: Int[Tensor, " N"]
    """The right option of each; IGNORED where it is not known."""
    question_ids: Int[Tensor, " N"]
    """Number of each in the split; -1 for an idle rank's."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class MultipleChoiceExamples:
    """The questions of one split, each as long as its options together."""

    def __init__(self, c: MultipleChoiceConfig, split: ChoiceSplit, *, training: bool) -> None:
        if training and (split.answers < 0).any():
            raise ToolkitError(
                f"questions to train on must have answers, but split {split.name!r} of "
                f"{split.folder.name} has some without. Choose another --train-subset."
            )
        self.split = split
        counts = split.option_counts
        self._firsts = np.cumsum(counts) - counts
        passages = np.repeat(split.passage_lengths, counts)
        most = c.tokens_per_sample - SPECIAL_OF_PAIR
        self._passage, self._option = truncate_longest_first(passages, split.option_lengths, most)
        kept = self._passage + self._option
        longest = np.maximum.reduceat(kept, self._firsts) + SPECIAL_OF_PAIR
        self.lengths = longest * int(counts.max())  # so that no batch has more places than allowed
        self._begins = np.cumsum(split.option_lengths) - split.option_lengths
        self._begins -= np.repeat(self._begins[self._firsts], counts)
        self.remark = describe_truncation(passages + split.option_lengths, kept)
        self.fingerprint = compute_fingerprint(
            split.folder.fingerprint, split.name, c.tokens_per_sample
        )

    def collate(self, ids: Numbers, epoch: int | None) -> MultipleChoiceBatch:
        """The options side by side; without ids an idle rank's batch of weight zero."""
        idle = len(ids) == 0
        ids = np.zeros(1, np.int64) if idle else ids % len(self.lengths)
        split, counts = self.split, self.split.option_counts[ids]
        chosen, of = ragged_arange(self._firsts[ids], counts), np.repeat(ids, counts)
        texts = join_pairs(
            split.passages.take(split.passage_of[of], self._passage[chosen]),
            split.options.take(of, self._option[chosen], self._begins[chosen]),
            split.vocabulary,
        )
        places, behind = np.arange(counts.max()), np.cumsum(counts) - counts
        rows = np.where(places < counts[:, None], behind[:, None] + places, NO_OPTION)
        known = (split.answers[ids] >= 0) & (not idle)
        return MultipleChoiceBatch(
            inputs=to_inputs(texts),
            selected=torch.arange(len(of)) * texts.tokens.shape[1],
            option_rows=torch.from_numpy(rows),
            targets=torch.from_numpy(np.where(known, split.answers[ids], IGNORED)),
            question_ids=torch.from_numpy(np.full(1, -1) if idle else ids),
            weights={OBJECTIVE: float(known.sum())},
            sentences=0 if idle else len(ids),
            tokens=0 if idle else int(texts.lengths.sum()),
        )

"""Questions with all their options as batches: every option forms a row with its passage.

N questions of the batch   B their options   O maximum number of options
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.common.arrays import IntArray, ragged_arange
from toolkit.config.declared import OF_MODEL, AtLeast, Rate
from toolkit.criteria import IGNORED
from toolkit.data.formats.qa.split import ChoiceSplit
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.sequence_pairs import (
    SPECIAL_OF_PAIR,
    join_pairs,
    truncate_longest_first,
)
from toolkit.data.samples.text_samples import describe_truncation
from toolkit.models.heads import HeadKind
from toolkit.models.interface import Inputs
from toolkit.tasks.capabilities import FeatureOptions
from toolkit.tasks.examples import Examples, SplitSource
from toolkit.tasks.glue.examples import to_inputs


@dataclass(frozen=True, kw_only=True)
class MultipleChoiceConfig(FeatureOptions, section="task"):
    """Options of the task multiple_choice."""

    head: HeadKind = field(default="pooled", metadata=OF_MODEL)
    """What an option's score is computed from. pooled: tanh of a linear map of the first token's
    last state, as in BERT; plain: that state itself; gelu: like pooled with
    gelu in place of tanh, as in ELECTRA of Transformers. TACO's state concatenates its streams."""
    head_dropout: Rate = field(default=0.1, metadata=OF_MODEL)
    """Dropout rate of the head's inputs."""
    tokens_per_sample: Annotated[int, AtLeast(8, or_zero=True)] = 0
    """Maximum number of tokens of a passage with one option, special tokens included; longer pairs
    are truncated token by token at the end of the longer text. 0 for 512, or the architecture's
    maximum if less."""


OBJECTIVE = "choice"
NO_OPTION = -1


class MultipleChoiceBatch(NamedTuple):
    """Options with their passages, and the correct ones."""

    inputs: Inputs
    selected: Int[Tensor, " B"]
    """Flat index of each row's first token into B x S."""
    option_rows: Int[Tensor, "N O"]
    """Row of each option; -1 if a question has fewer."""
    targets: Int[Tensor, " N"]
    """Correct option of each question; IGNORED if unknown."""
    question_ids: Int[Tensor, " N"]
    """Index of each question in the split; -1 for an idle rank."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class MultipleChoiceExamples(Examples[MultipleChoiceBatch]):
    """The questions of one split, each as long as its options together."""

    idle_values: ClassVar[Mapping[str, int]] = {"targets": IGNORED, "question_ids": -1}

    def __init__(self, c: MultipleChoiceConfig, source: SplitSource) -> None:
        self.split = split = ChoiceSplit(source.folder, source.name)
        source.check_labeled(bool((split.answers >= 0).all()), "questions without answers")
        counts = split.option_counts
        self._first_options = np.cumsum(counts) - counts
        passages = np.repeat(split.passage_lengths, counts)
        room = c.tokens_per_sample - SPECIAL_OF_PAIR
        self._passage, self._option = truncate_longest_first(passages, split.option_lengths, room)
        kept = self._passage + self._option
        longest = np.maximum.reduceat(kept, self._first_options) + SPECIAL_OF_PAIR
        self.lengths = longest * int(counts.max())  # an upper bound of the question's padded tokens
        self._starts = np.cumsum(split.option_lengths) - split.option_lengths
        self._starts -= np.repeat(self._starts[self._first_options], counts)
        self.remark = describe_truncation(passages + split.option_lengths, kept)
        cut = passages + split.option_lengths > kept
        self.truncated = int(np.logical_or.reduceat(cut, self._first_options).sum())
        self.fingerprint = compute_fingerprint(
            split.folder.fingerprint, split.name, c.tokens_per_sample
        )

    def make_batch(self, ids: IntArray, epoch: int | None) -> MultipleChoiceBatch:
        ids = ids % len(self)
        split, counts = self.split, self.split.option_counts[ids]
        options = ragged_arange(self._first_options[ids], counts)
        question_of = np.repeat(ids, counts)
        texts = join_pairs(
            split.passages.take(split.passage_items[question_of], self._passage[options]),
            split.options.take(question_of, self._option[options], self._starts[options]),
            split.vocabulary,
        )
        columns, first_rows = np.arange(counts.max()), np.cumsum(counts) - counts
        rows = np.where(columns < counts[:, None], first_rows[:, None] + columns, NO_OPTION)
        known = split.answers[ids] >= 0
        return MultipleChoiceBatch(
            inputs=to_inputs(texts),
            selected=torch.arange(len(options)) * texts.tokens.shape[1],
            option_rows=torch.from_numpy(rows),
            targets=torch.from_numpy(np.where(known, split.answers[ids], IGNORED)),
            question_ids=torch.from_numpy(ids),
            weights={OBJECTIVE: float(known.sum())},
            sentences=len(ids),
            tokens=int(texts.lengths.sum()),
        )

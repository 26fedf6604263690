"""Questions with windows of their passages as batches, with the positions of their answers.

B windows of the batch   S positions of a window
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.config.declared import AtLeast, PositiveInt
from toolkit.criteria import IGNORED
from toolkit.data.formats.qa.format import SquadSplit, Windows, split_into_windows
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.sequence_pairs import SPECIAL_OF_PAIR, SPECIAL_OF_SINGLE, join_pairs
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import Examples, SplitSource, to_inputs
from toolkit.tasks.task import FeatureOptions


@dataclass(frozen=True, kw_only=True)
class SquadConfig(FeatureOptions, section="task"):
    """Options of the task squad."""

    tokens_per_sample: Annotated[int, AtLeast(8, or_zero=True)] = 0
    """Maximum number of tokens of question and passage, special tokens included; longer passages
    are read in several windows. 0 for 384, or the architecture's maximum if less."""
    stride: PositiveInt = 128
    """Passage tokens between the starts of two windows."""
    question_tokens: PositiveInt = 64
    """Maximum number of tokens of a question; longer ones, and those longer than half a window, are
    truncated."""
    answer_tokens: PositiveInt = 30
    """Maximum number of tokens of a predicted answer."""
    nbest: PositiveInt = 20
    """Number of answers kept per question."""


START, END = "begin", "end"
UNKNOWN = -2
"""Span of a question whose answer is not in the data."""


class SquadBatch(NamedTuple):
    """Windows, and the positions of the answers in them."""

    inputs: Inputs
    starts: Int[Tensor, " B"]
    """Position of the answer's first token; 0 ([CLS]) if the window does not contain all of it,
    IGNORED if it is unknown."""
    ends: Int[Tensor, " B"]
    """Position of its last token, likewise."""
    allowed: Bool[Tensor, "B S"]
    """True where an answer may start and end: at [CLS] and in the passage."""
    passage_starts: Int[Tensor, " B"]
    """Position of the passage's first token."""
    ids: Int[Tensor, " B"]
    """Index of each window in the split; -1 for an idle rank."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class SquadExamples(Examples[SquadBatch]):
    """The windows of one split; they are computed from lengths, without reading the passages."""

    idle_values: ClassVar[Mapping[str, int]] = {"starts": IGNORED, "ends": IGNORED}

    def __init__(self, c: SquadConfig, source: SplitSource) -> None:
        self.config, self.split = c, SquadSplit(source.folder, source.name)
        split = self.split
        source.check_labeled(not (split.spans == UNKNOWN).all(), "questions without answers")
        lengths = split.questions.lengths.astype(np.int64)
        longest = min(c.question_tokens, (c.tokens_per_sample - SPECIAL_OF_PAIR) // 2)
        self._question = np.minimum(lengths, longest)
        room = c.tokens_per_sample - SPECIAL_OF_PAIR - self._question
        self.windows: Windows = split_into_windows(split.passage_lengths, room, c.stride)
        self.targets = find_targets(split.spans, self.windows, self._question + SPECIAL_OF_SINGLE)
        questions = self.windows.question_ids
        self.lengths = self._question[questions] + self.windows.lengths + SPECIAL_OF_PAIR
        self.truncated = int((self._question < lengths).sum())
        self.remark = f"windows of {len(split):,} questions" + (
            f", {self.truncated:,} of them truncated" if self.truncated else ""
        )
        options = (split.name, c.tokens_per_sample, c.stride, longest)
        self.fingerprint = compute_fingerprint(split.folder.fingerprint, *options)

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> SquadBatch:
        ids = ids % len(self)
        split, (window_questions, starts, lengths, _) = self.split, self.windows
        questions, targets = window_questions[ids], self.targets[ids]
        texts = join_pairs(
            split.questions.take(questions, self._question[questions]),
            split.passages.take(split.passage_items[questions], lengths[ids], starts[ids]),
            split.vocabulary,
        )
        positions = np.arange(texts.tokens.shape[1])
        first, count = texts.second_starts[:, None], lengths[ids][:, None]
        allowed = (positions == 0) | ((positions >= first) & (positions < first + count))
        known = float((targets[:, 0] != IGNORED).sum())
        return SquadBatch(
            inputs=to_inputs(texts),
            starts=torch.from_numpy(targets[:, 0].copy()),
            ends=torch.from_numpy(targets[:, 1].copy()),
            allowed=torch.from_numpy(allowed),
            passage_starts=torch.from_numpy(texts.second_starts),
            ids=torch.from_numpy(ids),
            weights={START: known, END: known},
            sentences=len(ids),
            tokens=int(texts.lengths.sum()),
        )


def find_targets(spans: IntArray, windows: Windows, passage_starts: IntArray) -> IntArray:
    """First and last position of the answer in each window; 0 if it does not contain all of it."""
    starts = windows.starts[:, None]
    span = spans[windows.question_ids]
    inside = (span >= starts) & (span < starts + windows.lengths[:, None])
    positions = span - starts + passage_starts[windows.question_ids][:, None]
    return np.where(span == UNKNOWN, IGNORED, np.where(inside.all(1, keepdims=True), positions, 0))

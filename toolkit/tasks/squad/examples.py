"""Questions with windows of their passages, put into batches with the places of their answers.

B windows of the batch   S places of a window
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.formats.qa.split import SquadSplit
from toolkit.data.formats.qa.windows import Windows, split_into_windows
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.sequence_pairs import SPECIAL_OF_PAIR, SPECIAL_OF_SINGLE, join_pairs
from toolkit.models.interface import Inputs
from toolkit.tasks.glue.examples import to_inputs
from toolkit.tasks.squad.config import SquadConfig

START, END = "begin", "end"
Numbers = npt.NDArray[np.int64]


class SquadBatch(NamedTuple):
    """Windows, and where in them the answers begin and end."""

    inputs: Inputs
    starts: Int[Tensor, " B"]
    """Place of the answer's first token, 0 ([CLS]) where the window has none of it or not all;
    IGNORED where it is not known."""
    ends: Int[Tensor, " B"]
    """Place of its last token, likewise."""
    allowed: Bool[Tensor, "B S"]
    """True where an answer may begin and end: at [CLS] and in the passage."""
    passage_starts: Int[Tensor, " B"]
    """Place of the passage's first token."""
    window_ids: Int[Tensor, " B"]
    """Number of each in the split; -1 for an idle rank's."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class SquadExamples:
    """The windows of one split: arithmetic on lengths, so that other windows cost nothing."""

    def __init__(self, c: SquadConfig, split: SquadSplit, *, training: bool) -> None:
        if training and (split.spans == -2).all():
            raise ToolkitError(
                f"questions to train on must have answers, but split {split.name!r} of "
                f"{split.folder.name} has none. Choose another --train-subset."
            )
        self.split, self.config = split, c
        asked = split.questions.lengths.astype(np.int64)
        self._asked = np.minimum(asked, c.max_question_tokens)
        room = c.tokens_per_sample - SPECIAL_OF_PAIR - self._asked
        self.windows: Windows = split_into_windows(split.passage_lengths, room, c.stride)
        self.targets = find_targets(split.spans, self.windows, self._asked + SPECIAL_OF_SINGLE)
        questions = self.windows.question_ids
        self.lengths = self._asked[questions] + self.windows.lengths + SPECIAL_OF_PAIR
        shortened = int((self._asked < asked).sum())
        self.remark = f"windows of {len(split):,} questions" + (
            f", {shortened:,} of them shortened" if shortened else ""
        )
        options = (split.name, c.tokens_per_sample, c.stride, c.max_question_tokens)
        self.fingerprint = compute_fingerprint(split.folder.fingerprint, *options)

    def collate(self, ids: Numbers, epoch: int | None) -> SquadBatch:
        """The windows side by side; without ids an idle rank's batch of weight zero."""
        idle = len(ids) == 0
        ids = np.zeros(1, np.int64) if idle else ids % len(self.lengths)
        split, (questions, begins, lengths, _) = self.split, self.windows
        asked = questions[ids]
        texts = join_pairs(
            split.questions.take(asked, self._asked[asked]),
            split.passages.take(split.passage_of[asked], lengths[ids], begins[ids]),
            split.vocabulary,
        )
        places = np.arange(texts.tokens.shape[1])
        first, count = texts.second_starts[:, None], lengths[ids][:, None]
        allowed = (places == 0) | ((places >= first) & (places < first + count))
        targets = np.full((1, 2), IGNORED) if idle else self.targets[ids]
        known = float((targets[:, 0] != IGNORED).sum())
        return SquadBatch(
            inputs=to_inputs(texts),
            starts=torch.from_numpy(targets[:, 0].copy()),
            ends=torch.from_numpy(targets[:, 1].copy()),
            allowed=torch.from_numpy(allowed),
            passage_starts=torch.from_numpy(texts.second_starts),
            window_ids=torch.from_numpy(np.full(1, -1) if idle else ids),
            weights={START: known, END: known},
            sentences=0 if idle else len(ids),
            tokens=0 if idle else int(texts.lengths.sum()),
        )


def find_targets(spans: Numbers, windows: Windows, firsts: Numbers) -> Numbers:
    """Places of the first and last token of each window's answer; 0 where it has not all of it."""
    begins = windows.starts[:, None]
    span = spans[windows.question_ids]
    inside = (span >= begins) & (span < begins + windows.lengths[:, None])
    places = span - begins + firsts[windows.question_ids][:, None]
    found = np.where(inside.all(1, keepdims=True), places, 0)
    return np.where(span == -2, IGNORED, found)

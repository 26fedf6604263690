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
from toolkit.data.formats.qa.windows import Windows, windows_of
from toolkit.data.loading.batching import fingerprint_of
from toolkit.data.samples.sequence_pairs import MARKS_OF_ONE, MARKS_OF_TWO, joined
from toolkit.models.interface import Inputs
from toolkit.tasks.glue.examples import inputs_of
from toolkit.tasks.squad.config import SquadConfig

BEGIN, END = "begin", "end"
Numbers = npt.NDArray[np.int64]


class WindowBatch(NamedTuple):
    """Windows, and where in them the answers begin and end."""

    inputs: Inputs
    begins: Int[Tensor, " B"]
    """Place of the answer's first token, 0 ([CLS]) where the window has none of it or not all;
    IGNORED where it is not known."""
    ends: Int[Tensor, " B"]
    """Place of its last token, likewise."""
    allowed: Bool[Tensor, "B S"]
    """True where an answer may begin and end: at [CLS] and in the passage."""
    firsts: Int[Tensor, " B"]
    """Place of the passage's first token."""
    windows: Int[Tensor, " B"]
    """Number of each in the split; -1 for an idle rank's."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class WindowExamples:
    """The windows of one split: arithmetic on lengths, so that other windows cost nothing."""

    def __init__(self, c: SquadConfig, split: SquadSplit, *, training: bool) -> None:
        if training and (split.spans == -2).all():
            raise ToolkitError(
                f"questions to train on must have answers, but split {split.name!r} of "
                f"{split.folder.name} has none. Choose another --train-subset."
            )
        self.split, self.config = split, c
        asked = split.questions.lengths.astype(np.int64)
        self._asked = np.minimum(asked, c.most_of_question)
        room = c.tokens_per_sample - MARKS_OF_TWO - self._asked
        self.windows: Windows = windows_of(split.passage_lengths, room, c.stride)
        self.targets = targets_of(split.spans, self.windows, self._asked + MARKS_OF_ONE)
        questions = self.windows.questions
        self.lengths = self._asked[questions] + self.windows.lengths + MARKS_OF_TWO
        shortened = int((self._asked < asked).sum())
        self.remark = f"windows of {len(split):,} questions" + (
            f", {shortened:,} of them shortened" if shortened else ""
        )
        options = (split.name, c.tokens_per_sample, c.stride, c.most_of_question)
        self.fingerprint = fingerprint_of(split.folder.fingerprint, *options)

    def collate(self, ids: Numbers, epoch: int | None) -> WindowBatch:
        """The windows side by side; without ids an idle rank's batch of weight zero."""
        idle = len(ids) == 0
        ids = np.zeros(1, np.int64) if idle else ids % len(self.lengths)
        split, (questions, begins, lengths, _) = self.split, self.windows
        asked = questions[ids]
        texts = joined(
            split.questions.take(asked, self._asked[asked]),
            split.passages.take(split.passage_of[asked], lengths[ids], begins[ids]),
            split.vocabulary,
        )
        places = np.arange(texts.tokens.shape[1])
        first, count = texts.seconds[:, None], lengths[ids][:, None]
        allowed = (places == 0) | ((places >= first) & (places < first + count))
        targets = np.full((1, 2), IGNORED) if idle else self.targets[ids]
        known = float((targets[:, 0] != IGNORED).sum())
        return WindowBatch(
            inputs=inputs_of(texts),
            begins=torch.from_numpy(targets[:, 0].copy()),
            ends=torch.from_numpy(targets[:, 1].copy()),
            allowed=torch.from_numpy(allowed),
            firsts=torch.from_numpy(texts.seconds),
            windows=torch.from_numpy(np.full(1, -1) if idle else ids),
            weights={BEGIN: known, END: known},
            sentences=0 if idle else len(ids),
            tokens=0 if idle else int(texts.lengths.sum()),
        )


def targets_of(spans: Numbers, windows: Windows, firsts: Numbers) -> Numbers:
    """Places of the first and last token of each window's answer; 0 where it has not all of it."""
    begins = windows.begins[:, None]
    span = spans[windows.questions]
    inside = (span >= begins) & (span < begins + windows.lengths[:, None])
    places = span - begins + firsts[windows.questions][:, None]
    found = np.where(inside.all(1, keepdims=True), places, 0)
    return np.where(span == -2, IGNORED, found)

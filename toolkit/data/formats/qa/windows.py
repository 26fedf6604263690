"""Windows over passages that are longer than what is read at once (Devlin et al. 2019, code)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.data.ragged import ragged_arange


class Windows(NamedTuple):
    """Parts of passages, question by question."""

    question_ids: IntArray
    """Of which question each is."""
    starts: IntArray
    """The passage's first token in it."""
    lengths: IntArray
    """How many of the passage's tokens it has."""
    first_windows: IntArray
    """The first window of each question, and at the end how many windows there are."""


def split_into_windows(passages: IntArray, room: IntArray, stride: int) -> Windows:
    """As many windows as reach the end, each starting `stride` tokens after the one before.

    `passages` are the tokens of each question's passage, `room` how many its windows have. Where
    there is less room than the stride windows follow each other without a gap.
    """
    step = np.minimum(stride, room)
    counts = 1 + -(-np.maximum(passages - room, 0) // step)
    questions = np.repeat(np.arange(len(passages)), counts)
    begins = ragged_arange(0, counts) * step[questions]
    lengths = np.minimum(room[questions], passages[questions] - begins)
    return Windows(questions, begins, lengths, np.concatenate([[0], np.cumsum(counts)]))


def max_context_tokens(windows: Windows, window: int) -> BoolArray:
    """Which of a window's tokens have more around them there than in any other window.

    What is around a token is the smaller of the tokens before and after it in the window, and a
    hundredth of the window's length. Of equal windows the first is meant.
    """
    question = windows.question_ids[window]
    others = slice(windows.first_windows[question], windows.first_windows[question + 1])
    begins, lengths = windows.starts[others, None], windows.lengths[others, None]
    tokens = windows.starts[window] + np.arange(windows.lengths[window])
    before, behind = tokens - begins, begins + lengths - 1 - tokens
    around = np.minimum(before, behind) + 0.01 * lengths
    around = np.where((before < 0) | (behind < 0), -1.0, around)
    best: BoolArray = around.argmax(0) == window - windows.first_windows[question]
    return best

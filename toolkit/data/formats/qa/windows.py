"""Sliding windows over long passages (Devlin et al. 2019, code)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.data.ragged import ragged_arange


class Windows(NamedTuple):
    """Parts of passages, question by question."""

    question_ids: IntArray
    """The question of each window."""
    starts: IntArray
    """Index of the window's first token in the passage."""
    lengths: IntArray
    """Number of the passage's tokens in each window."""
    first_windows: IntArray
    """The first window of each question, and at the end the number of windows."""


def split_into_windows(passage_lengths: IntArray, max_lengths: IntArray, stride: int) -> Windows:
    """Windows that cover each question's passage, `stride` tokens apart.

    `max_lengths` is the maximum length of each question's windows. If it is less than the stride,
    the windows follow each other without a gap.
    """
    step = np.minimum(stride, max_lengths)
    counts = 1 + -(-np.maximum(passage_lengths - max_lengths, 0) // step)
    questions = np.repeat(np.arange(len(passage_lengths)), counts)
    starts = ragged_arange(0, counts) * step[questions]
    lengths = np.minimum(max_lengths[questions], passage_lengths[questions] - starts)
    return Windows(questions, starts, lengths, np.concatenate([[0], np.cumsum(counts)]))


def max_context_tokens(windows: Windows, window: int) -> BoolArray:
    """For each token of a window, whether its context is larger than in all other windows.

    The context of a token is the smaller one of the numbers of tokens before and after it in the
    window, plus a hundredth of the window's length. Among equal windows the first one counts.
    """
    question = windows.question_ids[window]
    others = slice(windows.first_windows[question], windows.first_windows[question + 1])
    starts, lengths = windows.starts[others, None], windows.lengths[others, None]
    tokens = windows.starts[window] + np.arange(windows.lengths[window])
    before, after = tokens - starts, starts + lengths - 1 - tokens
    context = np.minimum(before, after) + 0.01 * lengths
    context = np.where((before < 0) | (after < 0), -1.0, context)
    is_max: BoolArray = context.argmax(0) == window - windows.first_windows[question]
    return is_max

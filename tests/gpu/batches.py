"""Batches of every task as the collaters shape them, full of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from toolkit.models.interface import Inputs
from toolkit.models.packing import Packing
from toolkit.tasks.examples import Batch, TargetBatch
from toolkit.tasks.multiple_choice import MultipleChoiceBatch
from toolkit.tasks.pretraining.mpm import MaskedPositionsBatch
from toolkit.tasks.pretraining.rtd import ReplacedTokensBatch
from toolkit.tasks.squad.examples import SquadBatch
from toolkit.tasks.tagging.examples import TaggingBatch
from toolkit.tasks.translation import TranslationBatch

MASK_RATE = 0.15
OPTIONS = 4
CHARACTERS, MAX_WORD_TYPES = 25, 512


class Shape(NamedTuple):
    sentences: int
    length: int
    padding: bool = False
    pieces: bool = False
    """Whether words have several pieces, of which the tagger takes the mean."""


def zeros(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def rows(number: float) -> int:
    """The number of selected positions, filled up to a multiple of 64 as on GPUs."""
    return -(-int(number) // 64) * 64


def inputs(s: Shape, **more: Any) -> Inputs:
    padding = zeros(s.sentences, s.length, dtype=torch.bool) if s.padding else None
    return Inputs(zeros(s.sentences, s.length), padding=padding, **more)


def full_packing(padding: Tensor) -> Packing:
    """As if all tokens were real; the true number is not known of a fake tensor."""
    sentences, length = padding.shape
    sizes = zeros(sentences + 1, dtype=torch.int32)
    tokens = sentences * length
    return Packing(sizes, sizes, zeros(rows(tokens)), tokens, zeros(sentences, length))


def masked(s: Shape) -> TargetBatch:
    tokens = s.sentences * s.length
    n = rows(tokens * MASK_RATE)
    return TargetBatch(inputs(s), zeros(n), zeros(n), {"mlm": float(n)}, s.sentences, tokens)


def replaced(s: Shape) -> ReplacedTokensBatch:
    m = masked(s)
    weights, draws = {**m.weights, "rtd": float(m.tokens)}, torch.zeros(len(m.targets))
    return ReplacedTokensBatch(
        m.inputs, m.selected, m.targets, draws, weights, m.sentences, m.tokens
    )


def positions(s: Shape) -> MaskedPositionsBatch:
    """Both copies of the sentences."""
    m, both = masked(s), s._replace(sentences=2 * s.sentences)
    n = len(m.targets)
    moved = inputs(both, positions=zeros(both.sentences, s.length), max_position=s.length - 1)
    weights = {"mlm": float(n), "mpm": float(n)}
    return MaskedPositionsBatch(
        moved, zeros(2 * n), m.targets, zeros(n), weights, s.sentences, 2 * m.tokens
    )


def tagged(s: Shape) -> TaggingBatch:
    words = s.sentences * s.length
    n = rows(words)
    read = inputs(
        s._replace(padding=True),
        char_ids=zeros(MAX_WORD_TYPES, CHARACTERS),
        word_index=zeros(s.sentences, s.length),
    )
    flags = [zeros(n, dtype=torch.bool) for _ in range(3)]
    owners = zeros(n) if s.pieces else None
    return TaggingBatch(
        read, zeros(n), owners, zeros(n), zeros(n), *flags, {"tag": float(n)}, s.sentences, words
    )


def translated(s: Shape) -> TranslationBatch:
    n, ids = rows(s.sentences * s.length), zeros(s.sentences)
    weights, tokens = {"translation": float(n)}, 2 * s.sentences * s.length
    return TranslationBatch(
        inputs(s),
        zeros(s.sentences, s.length),
        zeros(n),
        zeros(n),
        ids,
        weights,
        s.sentences,
        tokens,
    )


def blocks(s: Shape) -> TargetBatch:
    tokens = s.sentences * s.length
    n = rows(tokens)
    return TargetBatch(
        inputs(s._replace(padding=False)),
        zeros(n),
        zeros(n),
        {"lm": float(n)},
        s.sentences,
        tokens,
        word_count=n,
    )


def labeled(s: Shape) -> TargetBatch:
    n, weights = s.sentences, {"label": float(s.sentences)}
    return TargetBatch(inputs(s), zeros(n), zeros(n), weights, n, n * s.length, zeros(n))


def spans(s: Shape) -> SquadBatch:
    n, weights = s.sentences, {"begin": float(s.sentences), "end": float(s.sentences)}
    allowed = zeros(n, s.length, dtype=torch.bool)
    answers = [zeros(n) for _ in range(4)]
    return SquadBatch(inputs(s), *answers[:2], allowed, *answers[2:], weights, n, n * s.length)


def choices(s: Shape) -> MultipleChoiceBatch:
    n = s.sentences // OPTIONS
    weights, tokens = {"choice": float(n)}, s.sentences * s.length
    return MultipleChoiceBatch(
        inputs(s), zeros(s.sentences), zeros(n, OPTIONS), zeros(n), zeros(n), weights, n, tokens
    )


BATCHES: dict[str, Callable[[Shape], Batch | Any]] = {
    "mlm": masked,
    "rtd": replaced,
    "mpm": positions,
    "pos_tagging": tagged,
    "translation": translated,
    "language_modeling": blocks,
    "glue": labeled,
    "squad": spans,
    "multiple_choice": choices,
}
"""Task -> its batch of a shape, on the host."""

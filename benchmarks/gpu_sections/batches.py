"""Random batches of the tasks, shaped as the collaters of a GPU run shape them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from taco_speed import add_masked_positions
from torch import Tensor
from workloads import RATE

from toolkit.models.interface import Inputs
from toolkit.tasks.examples import SHAPE_MULTIPLE, TargetBatch
from toolkit.tasks.pretraining.rtd import ReplacedTokensBatch
from toolkit.tasks.translation import TranslationBatch


class Shape(NamedTuple):
    length: int
    tokens: int
    vocabulary: int

    @property
    def sentences(self) -> int:
        return max(1, self.tokens // self.length)

    def __str__(self) -> str:
        return f"{self.sentences * self.length:,} tokens, T={self.length}"


def make_batch(task: str, shape: Shape, *, padded: bool = False) -> Any:
    """A batch of one of the tasks below, on the host."""
    torch.manual_seed(0)
    return BATCHES[task](shape, padded)


def random_inputs(shape: Shape, padded: bool) -> Inputs:
    """With `padded`, every second sentence is three quarters as long."""
    tokens = torch.randint(5, shape.vocabulary - 4, (shape.sentences, shape.length))
    if not padded:
        return Inputs(tokens)
    padding = torch.zeros_like(tokens, dtype=torch.bool)
    padding[1::2, shape.length * 3 // 4 :] = True
    return Inputs(tokens.masked_fill(padding, 0), padding=padding)


def masked(shape: Shape, padded: bool) -> TargetBatch:
    """Predicted are tokens only: padding of packed sentences has no row of its own."""
    inputs = random_inputs(shape, padded)
    real = torch.arange(inputs.tokens.numel())
    if inputs.padding is not None:
        real = real[~inputs.padding.flatten()]
    count = -(-int(RATE * len(real)) // SHAPE_MULTIPLE) * SHAPE_MULTIPLE
    selected = real[torch.randperm(len(real))[:count]].sort().values
    weights, targets = {"mlm": float(len(selected))}, inputs.tokens.flatten()[selected]
    return TargetBatch(inputs, selected, targets, weights, shape.sentences, len(real))


def replaced(shape: Shape, padded: bool) -> ReplacedTokensBatch:
    m = masked(shape, padded)
    weights, draws = {**m.weights, "rtd": float(m.tokens)}, torch.rand(len(m.targets))
    return ReplacedTokensBatch(
        m.inputs, m.selected, m.targets, draws, weights, m.sentences, m.tokens
    )


def positions(shape: Shape, padded: bool) -> Any:
    """Sentences of the shape and the same ones with masked positions: twice the tokens."""
    return add_masked_positions(masked(shape, False))


def translated(shape: Shape, padded: bool) -> TranslationBatch:
    """As many target tokens as source tokens."""
    source, target = random_inputs(shape, padded), random_inputs(shape, False).tokens
    count, ids = target.numel(), torch.arange(shape.sentences)
    weights = {"translation": float(count)}
    return TranslationBatch(
        source,
        target.roll(1, 1),
        torch.arange(count),
        target.flatten(),
        ids,
        weights,
        len(ids),
        2 * count,
    )


def blocks(shape: Shape, padded: bool) -> TargetBatch:
    tokens: Tensor = random_inputs(shape, False).tokens
    count, weights = tokens.numel(), {"lm": float(tokens.numel())}
    every, previous = torch.arange(count), Inputs(tokens.roll(1, 1))
    return TargetBatch(
        *(previous, every, tokens.flatten(), weights, shape.sentences, count), word_count=count
    )


BATCHES = {
    "mlm": masked,
    "rtd": replaced,
    "mpm": positions,
    "translation": translated,
    "language_modeling": blocks,
}

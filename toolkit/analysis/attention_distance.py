"""How much attention stays near the diagonal of its map (Jiang et al. 2020, section 6.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from toolkit.analysis.extract_attention import attention_maps
from toolkit.analysis.kernels import shown
from toolkit.analysis.read_text import batches
from toolkit.config.commands.plot import PlotConfig
from toolkit.metrics.seed_summary import summary
from toolkit.reporting.tables import Table
from toolkit.tasks.task import Learner

NEAR = 4
"""Tokens that are at most so far from each other are near."""


def concentration(
    weights: Float[Tensor, "B S S"], padding: Bool[Tensor, "B S"] | None = None
) -> Float[Tensor, " B"]:
    """C = sum_{|i-j| <= 4} M_ij / sum_{|i-j| > 4} M_ij (section 6.5), for each sentence.

    Rows of padding do not count, and nobody attends to it. A sentence of five tokens or fewer has
    none that are farther apart: its C is infinite.
    """
    total = weights.double()
    if padding is not None:
        total = total.masked_fill(padding[:, :, None], 0.0)
    far = total.triu(NEAR + 1).sum((1, 2)) + total.tril(-NEAR - 1).sum((1, 2))
    near = total.tril(NEAR).triu(-NEAR).sum((1, 2))
    return near / far


def of_even_attention(tokens: int) -> float:
    """C of a map of so many tokens, more than five, that all attend to all alike."""
    near = (2 * NEAR + 1) * tokens - NEAR * (NEAR + 1)
    return near / (tokens * tokens - near)


TOGETHER = 8  # sentences whose maps are held at a time


class Near(NamedTuple):
    """C of one layer's mean map, over the sentences that are long enough; None without such."""

    checkpoint: str
    layer: int | None
    """None for the mean over layers."""
    mean: float | None
    """Infinite where no attention at all goes to far tokens, as with narrow windows."""
    deviation: float | None
    """Over the sentences; None for a single one, and where the mean is infinite."""
    near_rate: float | None
    """C / (1 + C), the share of the attention that stays near."""
    even: float | None
    """C if all tokens of the same sentences attended to all alike."""
    sentences: int
    short: int
    """Sentences without tokens that are far from each other, which do not count."""


def near_of(path: str, learner: Learner, lines: Sequence[str], c: PlotConfig) -> list[Near]:
    """Of the mean over layers and heads, then of each layer; of those that the options name."""
    found: dict[int | None, list[float]] = {None: []}
    even: list[float] = []

    def of_heads(weights: Float[Tensor, "B H S T"]) -> Float[Tensor, "B S T"]:
        return (weights[:, [h - 1 for h in c.heads]] if c.heads else weights).mean(1)

    text = list(batches(learner, lines, TOGETHER))
    for batch in shown(text, f"reading {c.sentences}"):
        padding = batch.inputs.padding
        assert padding is not None, "sentences that are read together say where they end"
        lengths = (~padding).sum(1)
        long = lengths > NEAR + 1
        even += [of_even_attention(tokens) for tokens in lengths[long].tolist()]
        every = dict(enumerate(attention_maps(learner.encoder, batch.inputs, of_heads), 1))
        layers = {layer: every[layer] for layer in c.layers or every}
        mean = torch.stack(list(layers.values())).mean(0)
        for layer, weights in [(None, mean), *layers.items()]:
            found.setdefault(layer, []).extend(concentration(weights, padding)[long].tolist())
    return [near(path, layer, values, even, len(lines)) for layer, values in found.items()]


def near(
    path: str, layer: int | None, values: Sequence[float], even: Sequence[float], lines: int
) -> Near:
    if not values:
        return Near(path, layer, None, None, None, None, 0, lines)
    over, share = summary(values), summary([1 - 1 / (1 + c) for c in values])
    spread = over.deviation if math.isfinite(over.mean) else None
    alike = summary(even).mean
    return Near(path, layer, over.mean, spread, share.mean, alike, over.n, lines - over.n)


def table(found: Sequence[Near], *, several: bool) -> Table:
    """A row for each layer; of several models, a row for each model and layer."""
    rows = [
        [
            *[one.checkpoint] * several,
            "mean" if one.layer is None else str(one.layer),
            one.mean,
            one.deviation,
            None if one.near_rate is None else f"{one.near_rate:.1%}",
            one.even,
        ]
        for one in found
    ]
    first = found[0]
    left_out = f", {first.short:,} without such left out" if first.short else ""
    return Table(
        columns=[*["checkpoint"] * several, "layer", "C", "deviation", "near", "even"],
        rows=rows,
        together=("C", "deviation", "even"),
        numbers=("deviation", "near"),
        caption=f"C: attention to tokens at most {NEAR} away, over that to farther ones, mean over "
        f"{first.sentences:,} sentence{'s' * (first.sentences != 1)}{left_out}; near: its share of "
        f"all; even: C if all tokens were attended to alike",
    )

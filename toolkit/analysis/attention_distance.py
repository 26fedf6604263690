"""Attention near the diagonal (Jiang et al. 2020, section 6.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from toolkit.analysis.extract_attention import attention_maps
from toolkit.analysis.kernels import with_progress
from toolkit.analysis.read_text import batch_lines
from toolkit.config.commands.plot import AttentionConfig
from toolkit.metrics.seed_summary import summarize
from toolkit.reporting.tables import Table
from toolkit.tasks.task import Learner

MAX_DISTANCE = 4
"""Maximum distance of tokens that are near each other."""


def concentration(
    weights: Float[Tensor, "B S S"], padding: Bool[Tensor, "B S"] | None = None
) -> Float[Tensor, " B"]:
    """C = sum_{|i-j| <= 4} M_ij / sum_{|i-j| > 4} M_ij (section 6.5) of each sentence.

    Rows of padding do not count, and nobody attends to it. A sentence of five tokens or fewer has
    none that are farther apart: its C is infinite.
    """
    total = weights.double()
    if padding is not None:
        total = total.masked_fill(padding[:, :, None], 0.0)
    far = total.triu(MAX_DISTANCE + 1).sum((1, 2)) + total.tril(-MAX_DISTANCE - 1).sum((1, 2))
    near = total.tril(MAX_DISTANCE).triu(-MAX_DISTANCE).sum((1, 2))
    return near / far


def uniform_concentration(tokens: int) -> float:
    """C of uniform attention over more than five tokens."""
    near = (2 * MAX_DISTANCE + 1) * tokens - MAX_DISTANCE * (MAX_DISTANCE + 1)
    return near / (tokens * tokens - near)


BATCH_SIZE = 8  # sentences whose maps are held at a time


class AttentionLocality(NamedTuple):
    """C of a layer's mean map over sentences of more than five tokens; None without any."""

    checkpoint: str
    layer: int | None
    """None for the mean over layers."""
    mean: float | None
    """Infinite if no attention goes to distant tokens."""
    deviation: float | None
    """Over sentences; None for a single one, or if the mean is infinite."""
    near_rate: float | None
    """C / (1 + C), the share of attention to near tokens."""
    uniform: float | None
    """C of uniform attention over the same sentences."""
    sentences: int
    short: int
    """Number of sentences left out because they have no distant tokens."""


def measure_locality(
    path: str, learner: Learner, lines: Sequence[str], c: AttentionConfig
) -> list[AttentionLocality]:
    """Locality of the mean over the selected layers and heads, then of each layer."""
    found: dict[int | None, list[float]] = {None: []}
    uniform: list[float] = []

    def of_heads(weights: Float[Tensor, "B H S T"]) -> Float[Tensor, "B S T"]:
        return (weights[:, [h - 1 for h in c.heads]] if c.heads else weights).mean(1)

    text = list(batch_lines(learner, lines, BATCH_SIZE))
    for batch in with_progress(text, f"reading {c.sentences}"):
        padding = batch.inputs.padding
        assert padding is not None, "sentences that are read together say where they end"
        lengths = (~padding).sum(1)
        long = lengths > MAX_DISTANCE + 1
        uniform += [uniform_concentration(tokens) for tokens in lengths[long].tolist()]
        every = dict(enumerate(attention_maps(learner.encoder, batch.inputs, of_heads), 1))
        layers = {layer: every[layer] for layer in c.layers or every}
        mean = torch.stack(list(layers.values())).mean(0)
        for layer, weights in [(None, mean), *layers.items()]:
            found.setdefault(layer, []).extend(concentration(weights, padding)[long].tolist())
    return [
        summarize_layer(path, layer, values, uniform, len(lines)) for layer, values in found.items()
    ]


def summarize_layer(
    path: str, layer: int | None, values: Sequence[float], uniform: Sequence[float], lines: int
) -> AttentionLocality:
    if not values:
        return AttentionLocality(path, layer, None, None, None, None, 0, lines)
    over, share = summarize(values), summarize([1 - 1 / (1 + c) for c in values])
    spread = over.deviation if math.isfinite(over.mean) else None
    uniform_mean = summarize(uniform).mean
    return AttentionLocality(
        path, layer, over.mean, spread, share.mean, uniform_mean, over.n, lines - over.n
    )


def locality_table(found: Sequence[AttentionLocality], *, several: bool) -> Table:
    """One row per layer, or per model and layer."""
    rows = [
        [
            *[one.checkpoint] * several,
            "mean" if one.layer is None else str(one.layer),
            one.mean,
            one.deviation,
            None if one.near_rate is None else f"{one.near_rate:.1%}",
            one.uniform,
        ]
        for one in found
    ]
    first = found[0]
    left_out = f", {first.short:,} without such left out" if first.short else ""
    return Table(
        columns=[*["checkpoint"] * several, "layer", "C", "deviation", "near", "uniform"],
        rows=rows,
        shared_precision=("C", "deviation", "uniform"),
        right_align=("deviation", "near"),
        caption=f"C: attention to tokens at most {MAX_DISTANCE} away, over that to farther ones, "
        f"mean over {first.sentences:,} sentence{'s' * (first.sentences != 1)}{left_out}; near: "
        f"its share of all; uniform: C of uniform attention",
    )

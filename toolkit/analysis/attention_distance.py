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
from toolkit.tasks.learner import Learner

MAX_DISTANCE = 4
"""Maximum distance of tokens that count as near."""
BATCH_SIZE = 8  # sentences whose maps are in memory at a time


def concentration(
    weights: Float[Tensor, "B S S"], padding: Bool[Tensor, "B S"] | None = None
) -> Float[Tensor, " B"]:
    """C = sum_{|i-j| <= 4} M_ij / sum_{|i-j| > 4} M_ij (section 6.5) of each sentence.

    Padding is excluded. C is infinite for sentences of five tokens or fewer, in which no two tokens
    are farther apart.
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
    """C / (1 + C), the fraction of attention to near tokens."""
    uniform: float | None
    """C of uniform attention over the same sentences."""
    sentences: int
    short: int
    """Number of sentences left out because they have no distant tokens."""


def measure_locality(
    path: str, learner: Learner, lines: Sequence[str], c: AttentionConfig
) -> list[AttentionLocality]:
    """Locality of the mean over the selected layers and heads, then of each layer."""
    values: dict[int | None, list[float]] = {None: []}
    uniform: list[float] = []

    def mean_over_heads(weights: Float[Tensor, "B H S T"]) -> Float[Tensor, "B S T"]:
        return (weights[:, [h - 1 for h in c.heads]] if c.heads else weights).mean(1)

    batches = list(batch_lines(learner, lines, BATCH_SIZE))
    for batch in with_progress(batches, f"reading {c.sentences or 'the sentence'}"):
        padding = batch.inputs.padding
        assert padding is not None, "batch_lines pads"
        lengths = (~padding).sum(1)
        long = lengths > MAX_DISTANCE + 1
        uniform += [uniform_concentration(tokens) for tokens in lengths[long].tolist()]
        maps = dict(enumerate(attention_maps(learner.encoder, batch.inputs, mean_over_heads), 1))
        layers = {layer: maps[layer] for layer in c.layers or maps}
        mean = torch.stack(list(layers.values())).mean(0)
        for layer, weights in [(None, mean), *layers.items()]:
            values.setdefault(layer, []).extend(concentration(weights, padding)[long].tolist())
    return [summarize_layer(path, n, ratios, uniform, len(lines)) for n, ratios in values.items()]


def summarize_layer(
    path: str, layer: int | None, values: Sequence[float], uniform: Sequence[float], lines: int
) -> AttentionLocality:
    """Locality of one layer from its values per sentence."""
    if not values:
        return AttentionLocality(path, layer, None, None, None, None, 0, lines)
    summary = summarize(values)
    return AttentionLocality(
        path,
        layer,
        mean=summary.mean,
        deviation=summary.deviation if math.isfinite(summary.mean) else None,
        near_rate=summarize([1 - 1 / (1 + c) for c in values]).mean,
        uniform=summarize(uniform).mean,
        sentences=summary.n,
        short=lines - summary.n,
    )


def locality_table(localities: Sequence[AttentionLocality], *, several: bool) -> Table:
    """One row per layer, or per model and layer."""
    rows = [
        [
            *[it.checkpoint] * several,
            "mean" if it.layer is None else str(it.layer),
            it.mean,
            it.deviation,
            None if it.near_rate is None else f"{it.near_rate:.1%}",
            it.uniform,
        ]
        for it in localities
    ]
    first = localities[0]
    left_out = f", {first.short:,} too short" if first.short else ""
    return Table(
        columns=[*["checkpoint"] * several, "layer", "C", "deviation", "near", "uniform"],
        rows=rows,
        shared_precision=("C", "deviation", "uniform"),
        right_align=("deviation", "near"),
        caption=f"C: attention to tokens at most {MAX_DISTANCE} away, divided by that to farther "
        f"ones, mean over {first.sentences:,} sentence{'s' * (first.sentences != 1)}{left_out}; "
        f"near: fraction to tokens at most {MAX_DISTANCE} away; uniform: C of uniform attention",
    )

"""Relative position terms by name, for self-attention of either direction."""

from __future__ import annotations

from typing import Literal

from toolkit.models.transformer_stack import TransformerStackConfig
from toolkit.nn.attention import (
    Attention,
    BucketBias,
    Content,
    FixedKernel,
    LinearProjections,
    QueryKernel,
    Relative,
    ScoreTerm,
    SoftmaxMap,
)

RelativeTerm = Literal["none", "t5", "shaw", "composite"]
BUCKETS, MAX_DISTANCE = 32, 128
"""T5's: the offset from which on all share one bucket."""


def build_relative_terms(
    name: str, heads: int, head_width: int, radius: int, *, left_only: bool
) -> list[ScoreTerm]:
    """What is added to the scores q_i . k_j / sqrt(K), offsets beyond the radius clipped to it.

    t5: beta_{h, bucket(j-i)}, 32 buckets (Raffel et al. 2020). shaw: q_i . w_{j-i} / sqrt(K), the
    keys' part of Shaw et al. 2018. composite: beta_{h, j-i} + q_i . w_{j-i} / sqrt(K) (Chang et al.
    2021, eq. 6).
    """
    if name == "t5":
        return [BucketBias(heads, BUCKETS, MAX_DISTANCE, left_only=left_only)]
    if name == "shaw":
        return [Relative([QueryKernel(head_width, radius, left_only=left_only)])]
    if name == "composite":
        fixed = FixedKernel(heads, radius, left_only=left_only)
        return [Relative([fixed, QueryKernel(head_width, radius, left_only=left_only)])]
    return []


def build_self_attention(
    c: TransformerStackConfig, relative: str, radius: int, *, left_only: bool
) -> Attention:
    """softmax(q k^T / sqrt(K) + terms) v over the places of one sentence."""
    added = build_relative_terms(relative, c.heads, c.head_width, radius, left_only=left_only)
    map_ = SoftmaxMap(Content(c.head_width), added, c.attention_dropout)
    return Attention(c.width, LinearProjections(c.width, c.heads), map_)

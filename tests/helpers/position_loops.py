"""Encoders with position terms, as loops over pairs of tokens: one function for each term.

Weights are read from the modules, by the names of their classes. Nothing of the toolkit is called.
Vectors of a token have the shape (heads, K), and scores of a pair are one number per head.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Pair(NamedTuple):
    """Query i and key j, and their position ids."""

    q: Tensor
    k: Tensor
    p_i: int
    p_j: int

    @property
    def offset(self) -> int:
        return self.p_j - self.p_i


class Loops:
    """Attention with the named terms, `composite` as its parts fixed, shaw and key.

    `c` has the options radius, rope_base, position_buckets and max_distance of those that need it,
    and for encoders those of sliding-window layers.
    """

    def __init__(self, c, names: Collection[str], *, left_only: bool = False) -> None:
        self.c, self.names, self.left_only = c, set(names), left_only
        if "composite" in self.names:
            self.names |= {"fixed", "shaw"}
        self.products = 3 if "deberta" in self.names else 1
        self.base, self.window = c.rope_base, None

    def enter_layer(self, number: int) -> None:
        """Window and rotations of a layer: local between global ones (Warner et al. 2024, 2.1)."""
        c, local = self.c, self.c.attention_window and number % self.c.global_every
        self.window = c.attention_window // 2 if local else None
        self.base = (c.local_rope_base or c.rope_base) if local else c.rope_base

    # Terms of the scores

    def content(self, m, pair: Pair) -> Tensor:
        """q_i . k_j / sqrt(K) (Vaswani et al. 2017, eq. 1); with rope q and k are rotated first."""
        q, k = pair.q, pair.k
        if "rope" in self.names:
            q, k = rotate(q, pair.p_i, self.base), rotate(k, pair.p_j, self.base)
        return self.product(q, k)

    def product(self, x: Tensor, y: Tensor) -> Tensor:
        """x . y / sqrt(K), or / sqrt(3 K) with deberta (He et al. 2021, eq. 4)."""
        return (x * y).sum(-1) / math.sqrt(self.products * x.shape[-1])

    def alibi(self, m, pair: Pair) -> Tensor:
        """-m_h |p_j - p_i| (Press et al. 2022, section 3)."""
        slopes = torch.tensor(alibi_slopes(len(pair.q)), dtype=torch.float64)
        return -slopes * abs(pair.offset)

    def t5(self, m, pair: Pair) -> Tensor:
        """beta_{h, bucket(p_j - p_i)} (Raffel et al. 2020, section 2.1)."""
        return m["BucketBias"].numbers[:, t5_bucket(pair.offset, left_only=self.left_only)]

    def shaw(self, m, pair: Pair) -> Tensor:
        """q_i . a^K_{clip(p_j - p_i)} / sqrt(K) (Shaw et al. 2018, eq. 4)."""
        return self.product(pair.q, m["QueryKernel"].directions[:, self.tap(pair.offset)])

    def shaw_value(self, m, pair: Pair) -> Tensor:
        """a^V_{clip(p_j - p_i)}, added to the value of j (Shaw et al. 2018, eq. 3)."""
        return m["OffsetValues"].vectors[:, self.tap(pair.offset)]

    def xl(self, m, pair: Pair) -> Tensor:
        """(b) q_i . W r_{i-j}, (c) u . k_j, (d) v . W r_{i-j}, / sqrt(K) (Dai et al. 2019, 3.3)."""
        u, v = m["ContentBias"].bias[:, 0], m["SinusoidalKernel"].bias[:, 0]
        matrix = m["SinusoidalKernel"].project.weight
        r = (matrix @ sinusoid(-pair.offset, matrix.shape[1])).unflatten(0, pair.q.shape)
        return self.product(pair.q, r) + self.product(u, pair.k) + self.product(v, r)

    def deberta(self, m, pair: Pair) -> Tensor:
        """(q_i . K^r_d + k_j . Q^r_d) / sqrt(3 K), d the bucket of i - j (He et al. 2021, eq. 4).

        As in the authors' code; the paper has that of j - i in the second product. Queries and
        keys of offsets have the matrices of those of tokens.
        """
        embedding = m["OffsetEmbedding"]
        row = deberta_row(-pair.offset, self.c.position_buckets, self.c.max_distance)
        vector = layer_norm(embedding.table.weight[row], embedding.norm)
        projected = linear(vector, m["DisentangledProjections"].qkv)
        q_r, k_r, *_ = projected.unflatten(0, (-1, *pair.q.shape))
        return self.product(pair.q, k_r) + self.product(pair.k, q_r)

    def fixed(self, m, pair: Pair) -> Tensor:
        """beta_{h, clip(p_j - p_i)} (Chang et al. 2021, eq. 4)."""
        return m["FixedKernel"].taps[:, self.tap(pair.offset)]

    def key(self, m, pair: Pair) -> Tensor:
        """k_j . w_{clip(p_i - p_j)} / sqrt(K) (Chang et al. 2021, section 3.2)."""
        return self.product(pair.k, m["KeyKernel"].directions[:, self.tap(-pair.offset)])

    def tap(self, offset: int) -> int:
        return max(-self.c.radius, min(self.c.radius, offset)) + self.c.radius

    def score(self, m, pair: Pair) -> Tensor:
        """The content and all terms; minus infinity outside the window."""
        if self.window is not None and abs(pair.offset) > self.window:
            return torch.full(pair.q.shape[:1], -math.inf, dtype=pair.q.dtype)
        total = self.content(m, pair)
        for name in self.names & {"alibi", "t5", "shaw", "xl", "deberta", "fixed", "key"}:
            total = total + getattr(self, name)(m, pair)
        return total

    # Layers

    def attend(self, attention, x: Tensor, ids: list[int], others: dict) -> tuple[Tensor, Tensor]:
        """Output before its matrix and weights (S, H, T) of one sentence without padding."""
        m = {type(part).__name__: part for part in attention.modules()} | others
        shape = attention.project.parts, attention.project.heads, -1
        q, k, v, *_ = linear(x, attention.project.qkv).unflatten(-1, shape).unbind(1)
        contexts, maps = [], []
        for i in range(len(ids)):
            keys = range(i + 1 if self.left_only else len(ids))
            pairs = [Pair(q[i], k[j], ids[i], ids[j]) for j in keys]
            weights = torch.stack([self.score(m, pair) for pair in pairs], -1).softmax(-1)
            total = torch.zeros_like(v[i])
            for j, pair in zip(keys, pairs, strict=True):
                value = v[j] + self.shaw_value(m, pair) if "OffsetValues" in m else v[j]
                total = total + weights[:, j, None] * value
            contexts.append(total.flatten())
            maps.append(torch.nn.functional.pad(weights, (0, len(ids) - len(keys))))
        return torch.stack(contexts), torch.stack(maps)

    def embed(self, embeddings, tokens: list[int], ids: list[int]) -> Tensor:
        """W LN(word + type + position); hidden positions, -1, have the last row of the table."""
        rows = []
        for token, position in zip(tokens, ids, strict=True):
            row = embeddings.words.weight[token] + embeddings.types.weight[0]
            if "learned" in self.names:
                row = row + embeddings.positions.weight[position]
            if "sinusoidal" in self.names:
                row = row + sinusoid(position, len(row)) / math.sqrt(len(row))
            rows.append(layer_norm(row, embeddings.norm))
        x = torch.stack(rows)
        return linear(x, embeddings.widen) if isinstance(embeddings.widen, nn.Linear) else x

    def encode(self, model, tokens: list[int], ids: list[int]) -> Tensor:
        """States of one sentence without padding."""
        x, others = self.embed(model.embeddings, tokens, ids), {}
        if "deberta" in self.names:
            others["OffsetEmbedding"] = model.offset_embedding
        for number, layer in enumerate(model.layers):
            self.enter_layer(number)
            context, _ = self.attend(layer.attention, x, ids, others)
            x = layer_norm(x + linear(context, layer.attention.output), layer.after_attention.norm)
            inner = torch.nn.functional.gelu(linear(x, layer.feed_forward.wide))
            y = linear(inner, layer.feed_forward.back)
            x = layer_norm(x + y, layer.after_feed_forward.norm)
        return x


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    return x @ layer.weight.mT + layer.bias


def layer_norm(x: Tensor, norm) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * g + b (Ba et al. 2016)."""
    centered = x - x.mean(-1, keepdim=True)
    variance = centered.square().mean(-1, keepdim=True)
    return centered / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def sinusoid(position: int, width: int) -> Tensor:
    """sin(p / 10000^(2c / D)) for c = 0 .. D / 2 - 1, then cos (Vaswani et al. 2017, 3.5)."""
    angles = [position / 10_000 ** (2 * c / width) for c in range(width // 2)]
    values = [*map(math.sin, angles), *map(math.cos, angles)]
    return torch.tensor(values, dtype=torch.float64)


def rotate(x: Tensor, position: int, base: float) -> Tensor:
    """Columns c and c + K / 2 rotated by p base^(-2c / K) (Su et al. 2021, eq. 15; GPT-NeoX)."""
    width = x.shape[-1]
    half, columns = width // 2, {}
    for c in range(half):
        angle = position * base ** (-2 * c / width)
        cos, sin = math.cos(angle), math.sin(angle)
        columns[c] = x[:, c] * cos - x[:, c + half] * sin
        columns[c + half] = x[:, c] * sin + x[:, c + half] * cos
    return torch.stack([columns[c] for c in range(width)], -1)


def alibi_slopes(heads: int) -> list[float]:
    """A geometric sequence that starts with 2^(-8 / n), which is also its ratio, for n = 2^m heads.

    Otherwise that of the closest smaller power of two, then every second one of the next power's
    sequence (Press et al. 2022, code).
    """
    if heads & (heads - 1) == 0:
        return [(2 ** (-8 / heads)) ** (h + 1) for h in range(heads)]
    smaller = 2 ** int(math.log2(heads))
    return alibi_slopes(smaller) + alibi_slopes(2 * smaller)[0::2][: heads - smaller]


def t5_bucket(offset: int, *, left_only: bool, buckets: int = 32, max_distance: int = 128) -> int:
    """Half of the buckets for one distance each, then logarithmic ones (Raffel et al. 2020, code).

    In both directions keys on the right have the second half of the buckets. The bounds of
    logarithmic buckets are compared as powers of integers.
    """
    first, distance = 0, max(0, -offset)
    if not left_only:
        buckets //= 2
        first, distance = (buckets if offset > 0 else 0), abs(offset)
    near = buckets // 2
    if distance < near:
        return first + distance
    steps, step = buckets - near, 0  # (distance / near)^steps >= (max_distance / near)^step
    while step + 1 < steps and (
        distance**steps * near ** (step + 1) >= near**steps * max_distance ** (step + 1)
    ):
        step += 1
    return first + near + step


def deberta_row(offset: int, buckets: int, max_distance: int) -> int:
    """Row of the bucket of i - j, clipped to -n .. n - 1, in a table of 2 n rows (DeBERTa v2).

    Offsets up to n / 2 are their own buckets; others have
    ceil(log(|o| / mid) / log((max - 1) / mid) (mid - 1)) + mid, mid = n / 2, here found by
    comparing powers of integers.
    """
    mid, distance = buckets // 2, abs(offset)
    bucket = min(distance, mid)
    while distance > mid and distance ** (mid - 1) * mid ** (bucket - mid) > (
        (max_distance - 1) ** (bucket - mid) * mid ** (mid - 1)
    ):
        bucket += 1
    return max(-buckets, min(buckets - 1, bucket if offset > 0 else -bucket)) + buckets

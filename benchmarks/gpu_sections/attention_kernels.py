"""Attention by Triton kernels, and the plain operations that compute the same."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Function = Callable[..., Tensor]


def relative_attention() -> tuple[Function, Function]:
    """Of qkv (B, S, 3, H, K), a bias (H, R) and the queries' table (1, K, R)."""
    from toolkit.nn.attention.inputs import Offsets, scatter_to_diagonals
    from toolkit.nn.ops import attention
    from toolkit.nn.ops.kernel_inputs import OffsetTables, SentenceRows
    from toolkit.nn.ops.relative_attention import relative_attention as by_kernel

    def kernel(qkv: Tensor, bias: Tensor, query: Tensor) -> Tensor:
        batch, length, *_, width = qkv.shape
        whole = {"device": qkv.device, "dtype": torch.int32}
        starts = torch.arange(0, batch * length, length, **whole)
        rows = SentenceRows(starts, torch.full_like(starts, length), length, covers_all=True)
        tables, scale = OffsetTables(bias, query), width**-0.5
        out = by_kernel(qkv.flatten(0, 1), tables, rows, scale=scale, dropout=0.0)
        return out.unflatten(0, (batch, length))

    def plain(qkv: Tensor, bias: Tensor, query: Tensor) -> Tensor:
        q, k, v = qkv.permute(2, 0, 3, 1, 4).contiguous()  # -> (3, B, H, S, K)
        taps = q @ query[0] * q.shape[-1] ** -0.5 + bias[None, :, None]
        scores = scatter_to_diagonals(taps, Offsets(None, q.shape[2], q.device))
        options = {"scale": q.shape[-1] ** -0.5, "dropout": 0.0}
        return attention.attend(q, k, v, scores, None, **options).transpose(1, 2)

    return kernel, plain


def mixed_attention() -> tuple[Function, Function]:
    """Of the maps and taps of TACO's five terms, and the convolution's weight, bias and slope."""
    from toolkit.nn.ops.kernel_inputs import KEY_TAPS, MAP, QUERY_TAPS, MapSource, view_map
    from toolkit.nn.ops.mixed_attention import mix_attention

    kinds = MAP, QUERY_TAPS, KEY_TAPS, MAP, MAP

    def kernel(*tensors: Tensor) -> Tensor:
        *maps, weight, bias, slope = tensors
        sources = [MapSource(t, kind) for t, kind in zip(maps, kinds, strict=True)]
        options = {"dropout": 0.0, "word_heads": len(bias) * 2 // 3}
        return torch.cat(mix_attention(sources, weight, bias, slope, None, **options), 1)

    def plain(*tensors: Tensor) -> Tensor:
        *maps, weight, bias, slope = tensors
        maps = [view_map(t, kind) for t, kind in zip(maps, kinds, strict=True)]
        scores = F.prelu(F.conv2d(torch.cat(maps, 1), weight[:, :, None, None], bias), slope)
        return torch.cat([scores, scores.softmax(-1)], 1)

    return kernel, plain


def attention_shapes(
    batch: int, length: int, heads: int, width: int, offsets: int = 17
) -> list[tuple[int, ...]]:
    return [(batch, length, 3, heads, width), (heads, offsets), (1, width, offsets)]


def map_shapes(batch: int, length: int, words: int, positions: int) -> list[tuple[int, ...]]:
    """With the scores of the previous layer."""
    heads, taps = words + positions, (batch, words, length, 2 * length)
    maps = [(batch, h, length, length) for h in (words, positions, heads)]
    channels = 3 * words + positions + heads
    return [maps[0], taps, taps, *maps[1:], (heads, channels), (heads,), (heads,)]

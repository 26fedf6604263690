"""The attention kernels that torch has on GPUs, chosen as there: the fake device cannot choose."""

from __future__ import annotations

import torch
from torch import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Flash attention in half precision without a mask, else the memory-efficient kernel."""
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value = (t.to(dtype) for t in (query, key, value))
        attn_mask = None if attn_mask is None else attn_mask.to(dtype)
    if attn_mask is None and query.dtype != torch.float32:
        return torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, False, scale=scale
        )[0]
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    learning = torch.is_grad_enabled()
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, learning, dropout_p, is_causal, scale=scale
    )[0]

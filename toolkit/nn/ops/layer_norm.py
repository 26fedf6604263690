"""LayerNorm and RMSNorm in autocast's precision on GPUs as on CPUs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

MIXES_PRECISIONS = {"cpu", "meta"}
"""Devices that normalize half precision with weights in fp32, without autocast for norms."""


class LayerNorm(nn.LayerNorm):
    """LN(x) (Ba et al. 2016); a GPU's autocast receives its own precision and not fp32."""

    def forward(self, x: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        if not self.elementwise_affine:
            device = x.device.type
            mixes = device in MIXES_PRECISIONS or not torch.is_autocast_enabled(device)
            with torch.autocast(device, enabled=False):
                y = F.layer_norm(x, self.normalized_shape, eps=self.eps)
            return y if mixes else y.to(torch.get_autocast_dtype(device))
        return layer_norm(x, self.weight, self.bias, self.eps)


def layer_norm(
    x: Float[Tensor, "*shape D"],
    weight: Float[Tensor, " D"],
    bias: Float[Tensor, " D"] | None,
    eps: float,
) -> Float[Tensor, "*shape D"]:
    """LN(x) with statistics in fp32.

    On a GPU autocast would convert x to fp32 and return fp32, and all that follows up to the next
    product would take twice the memory. Its kernels require weights in the precision of x.
    """
    device = x.device.type
    if device in MIXES_PRECISIONS or not torch.is_autocast_enabled(device):
        return F.layer_norm(x, weight.shape, weight, bias, eps)
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        weight, bias = weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
        return F.layer_norm(x, weight.shape, weight, bias, eps).to(dtype)


class RMSNorm(nn.Module):
    """w x / sqrt(mean(x^2) + eps), without a bias (Zhang & Sennrich 2019, eq. 4)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        """In the precision of autocast, with statistics in fp32."""
        device, weight = x.device.type, self.weight
        if device in MIXES_PRECISIONS or not torch.is_autocast_enabled(device):
            return F.rms_norm(x, weight.shape, weight.to(x.dtype), self.eps)
        dtype = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            return F.rms_norm(x, weight.shape, weight.to(x.dtype), self.eps).to(dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"

"""One kernel for each channel, and padding kept out of its reach."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F


def hide(x: Float[Tensor, "B S D"], padding: Bool[Tensor, "B S"] | None) -> Float[Tensor, "B S D"]:
    """Zero where there is no token, so that a neighbour's convolution sees the end of the text."""
    return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)


class DepthwiseConvolution(nn.Module):
    """y_{i,c} = b_c + sum_m w_{c,m} x_{i+m,c}, |m| <= radius, zeros beyond the ends."""

    def __init__(self, width: int, radius: int, *, bias: bool = True) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(
            width, width, 2 * radius + 1, padding=radius, groups=width, bias=bias
        )

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        weight, bias = self.convolution.weight.unsqueeze(2), self.convolution.bias
        radius, width = weight.shape[-1] // 2, len(weight)
        # As an image one row high, its channels last as they lie in memory: conv1d would move them
        # first, which takes 2.5 times as long on a CPU.
        image = x.mT.unsqueeze(2)  # (B, S, D) -> (B, D, 1, S)
        y = F.conv2d(image, weight, bias, padding=(0, radius), groups=width)
        return y.squeeze(2).mT  # (B, D, 1, S) -> (B, S, D)


class SeparableConvolution(nn.Module):
    """U depthwise(x) + b: the neighbours' channels one by one, then channels mixed.

    As in ConvBERT's code, the depthwise stage starts from a normal with deviation 1 / taps cut at
    two deviations, and has no bias; with one, as in Chang et al. 2021, it starts as torch does.
    """

    def __init__(self, width: int, out: int, radius: int, *, depthwise_bias: bool = False) -> None:
        super().__init__()
        self.depthwise = DepthwiseConvolution(width, radius, bias=depthwise_bias)
        self.pointwise = nn.Linear(width, out)
        if not depthwise_bias:
            deviation = 1 / (2 * radius + 1)
            weight, limit = self.depthwise.convolution.weight, 2 * deviation
            nn.init.trunc_normal_(weight, std=deviation, a=-limit, b=limit)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S W"]:
        return self.pointwise(self.depthwise(x))

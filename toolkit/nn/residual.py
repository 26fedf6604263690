"""Residual connections with their norm."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.norms import NORM_EPS, NormName, build_norm
from toolkit.nn.ops.add_norm import add_norm
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.layer_norm import LayerNorm


class Residual(nn.Module):
    """norm(x + dropout(f(x))) (Vaswani et al. 2017, section 5.4), or with `pre_norm`
    x + dropout(f(norm(x))) (Wang et al. 2019).
    """

    def __init__(
        self,
        width: int,
        dropout: float,
        eps: float = NORM_EPS,
        *,
        pre_norm: bool = False,
        norm: NormName = "layer",
    ) -> None:
        super().__init__()
        self.norm: nn.Module = build_norm(norm, width, eps)
        self.dropout, self.pre_norm = Dropout(dropout), pre_norm

    def pre_norm_input(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """The input of the sublayer f."""
        if not self.pre_norm:
            return x
        normed: Tensor = self.norm(x)
        return normed

    def forward(
        self, x: Float[Tensor, "B S D"], y: Float[Tensor, "B S D"]
    ) -> Float[Tensor, "B S D"]:
        """The residual of x, given y = f(pre_norm_input(x))."""
        norm = self.norm
        if self.pre_norm:
            return x + self.dropout(y)
        if isinstance(norm, LayerNorm):
            rate = self.dropout.effective_rate
            return add_norm(x, y, norm.weight, norm.bias, norm.eps, rate)
        normed: Tensor = norm(x.to(y.dtype) + self.dropout(y))
        return normed

"""Attention, once: project, map, apply, merge. Every variant is a choice of parts."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import Places
from toolkit.nn.attention.maps import AttentionMap
from toolkit.nn.attention.values import PlainValues, Values
from toolkit.nn.decoding_cache import Kept


class Attention(nn.Module):
    """W_O values(map(project(x))) + b_O; the values have the model's width, or `context`.

    Without `output` there is no W_O: the heads stand side by side.
    """

    def __init__(
        self,
        width: int,
        project: nn.Module,
        map_: AttentionMap,
        values: Values | None = None,
        context: int | None = None,
        *,
        output: bool = True,
    ) -> None:
        super().__init__()
        self.project, self.map, self.values = project, map_, values or PlainValues()
        self.output = nn.Linear(context or width, width) if output else nn.Identity()

    def forward(
        self, x: Float[Tensor, "B S D"], places: Places, kept: Kept | None = None
    ) -> Float[Tensor, "B S D"]:
        """With `kept`, x holds new places alone, and those before them are remembered."""
        p = self.project(x, places)
        if kept is not None:
            k, v = kept.extended(p.k, p.v)
            p = p._replace(k=k, v=v)
        context = self.values(self.map, p)  # (B, H, S, K)
        return self.output(context.transpose(1, 2).flatten(2))  # (B, H, S, K) -> (B, S, D)

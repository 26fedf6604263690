"""Attention as composed parts: projections, an attention map, values and an output map."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import SequenceContext
from toolkit.nn.attention.maps import AttentionMap
from toolkit.nn.attention.projections import Projections
from toolkit.nn.attention.values import AttentionValues, PlainValues
from toolkit.nn.decoding_cache import AttentionCache


class Attention(nn.Module):
    """W_O values(map(project(x))) + b_O.

    The values of all heads together have the model's width, or `context_width`. Without `output`
    the result is their concatenation.
    """

    def __init__(
        self,
        width: int,
        project: Projections,
        attention_map: AttentionMap,
        values: AttentionValues | None = None,
        context_width: int | None = None,
        *,
        output: bool = True,
    ) -> None:
        super().__init__()
        self.project, self.map, self.values = project, attention_map, values or PlainValues()
        self.output = nn.Linear(context_width or width, width) if output else nn.Identity()

    @property
    def accepts_rows(self) -> bool:
        """Whether it runs in one kernel if the context has rows."""
        if self.project.changes_content and self.map.kernel_reads_queries:
            return False
        values = self.values
        return self.project.keeps_rows and self.map.averages_rows and not values.sees_padding

    @property
    def accepts_packed_rows(self) -> bool:
        """The same without padding between the sentences."""
        return self.accepts_rows and not self.values.convolves

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        sequence: SequenceContext,
        cache: AttentionCache | None = None,
    ) -> Float[Tensor, "B S D"]:
        """With a cache, x holds new positions only; previous ones come from the cache."""
        p = self.project(x, sequence)
        if cache is not None:
            k, v = cache.append(p.k, p.v)
            p = p.replace(k=k, v=v)
        context = self.values(self.map, p)  # (B, H, S, K)
        return self.output(context.transpose(1, 2).flatten(2))  # (B, H, S, K) -> (B, S, D)

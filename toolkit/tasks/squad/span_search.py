"""The best answers of a window: all pairs of places are tried.

B windows   S places of a window   L tokens of the longest answer   N answers that are kept
"""

from __future__ import annotations

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F


def best_spans(
    begin: Float[Tensor, "B S"],
    end: Float[Tensor, "B S"],
    may_begin: Bool[Tensor, "B S"],
    may_end: Bool[Tensor, "B S"],
    *,
    longest: int,
    count: int,
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Int[Tensor, "B N"]]:
    """The largest begin_i + end_j with i <= j < i + L, and their i and j; -inf where there is none.

    (Devlin et al. 2019, section 4.2; their code tries pairs of the 20 best of either.)
    """
    begins = begin.float().masked_fill(~may_begin, -math.inf)
    ends = end.float().masked_fill(~may_end, -math.inf)
    window = F.pad(ends, (0, longest - 1), value=-math.inf).unfold(1, longest, 1)  # (B, S, L)
    totals = (begins[..., None] + window).flatten(1)  # (B, S, L) -> (B, S L)
    scores, places = totals.topk(min(count, totals.shape[1]))
    first = places // longest
    return scores, first, first + places % longest

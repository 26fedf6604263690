"""The best answers of a window, among all pairs of positions.

B windows   S positions of a window   L maximum number of tokens of an answer   N answers kept
"""

from __future__ import annotations

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F


def best_spans(
    start: Float[Tensor, "B S"],
    end: Float[Tensor, "B S"],
    may_start: Bool[Tensor, "B S"],
    may_end: Bool[Tensor, "B S"],
    *,
    max_tokens: int,
    count: int,
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Int[Tensor, "B N"]]:
    """The largest start_i + end_j with i <= j < i + L, and their i and j; -inf if there are fewer.

    (Devlin et al. 2019, section 4.2; their code tries pairs of the 20 best of either.)
    """
    starts = start.float().masked_fill(~may_start, -math.inf)
    ends = end.float().masked_fill(~may_end, -math.inf)
    window = F.pad(ends, (0, max_tokens - 1), value=-math.inf).unfold(1, max_tokens, 1)  # (B, S, L)
    totals = (starts[..., None] + window).flatten(1)  # (B, S, L) -> (B, S L)
    scores, pairs = totals.topk(min(count, totals.shape[1]))
    first = pairs // max_tokens
    return scores, first, first + pairs % max_tokens

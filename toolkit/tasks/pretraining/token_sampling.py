"""Tokens drawn from the distribution that a generator predicts, one uniform number each."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.criteria import Classes, ProjectedClasses
from toolkit.criteria.cross_entropy import split_logits

CPU_ROWS = 64
"""Positions whose tokens are sampled together on a CPU, which keeps them in its cache."""
GPU_LOGITS = 1 << 27
"""Logits that a GPU samples from together: in fp32 half a GiB."""
BELOW_ONE = 1 - 2**-22
"""The largest fraction of a sum in fp32 that is surely less than the sum."""
TOKENS_PER_BLOCK = 256
"""Neighbors in the vocabulary among which a GPU chooses last."""


@torch.no_grad()
def sample_tokens(
    prediction: Classes | ProjectedClasses, draws: Float[Tensor, " N"]
) -> Int[Tensor, " N"]:
    """argmax_v (logits_v + g_v), g Gumbel noise: v with probability softmax(logits)_v.

    Computed by inverting the cumulative distribution, which needs one uniform number per position
    (Clark et al. 2020's code draws V). No gradient flows. Logits that are not finite yield an
    arbitrary token; the loss reveals them. Logits that the loss does not store are computed twice,
    chunk by chunk: here and for the loss, which is summed after the tokens have been read.
    """
    chunks: Iterable[Tensor]
    if isinstance(prediction, ProjectedClasses):  # classes of -inf may follow the last
        chunks, classes = split_logits(prediction), len(prediction.table)
    else:
        chunks, classes = [prediction.logits], prediction.logits.shape[-1]
    samples, start = [], 0
    on_cpu = draws.device.type == "cpu"
    for logits in chunks:
        rows_at_once = CPU_ROWS if on_cpu else max(1, GPU_LOGITS // logits.shape[-1])
        for rows in logits.split(rows_at_once):
            sampler = invert_sums_in_two_levels if rows.is_cuda else invert_sums
            samples.append(sampler(rows, draws[start : start + len(rows)]))
            start += len(rows)
    return torch.cat(samples).clamp(max=classes - 1)


def invert_sums(logits: Float[Tensor, "n V"], draws: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The first token where the sum of probabilities exceeds the draw's fraction of the total."""
    sums = logits.float().softmax(-1).cumsum(-1)
    thresholds = draws.clamp(max=BELOW_ONE)[:, None] * sums[:, -1:]
    tokens = torch.searchsorted(sums, thresholds, right=True)[:, 0]
    return tokens.clamp(max=sums.shape[-1] - 1)


def invert_sums_in_two_levels(
    logits: Float[Tensor, "n V"], draws: Float[Tensor, " n"]
) -> Int[Tensor, " n"]:
    """The same for CUDA: a block of tokens, then one of it.

    Torch does not promise a fixed order of CUDA's cumulative sums.
    """
    last = logits.shape[-1] - 1
    p = logits.softmax(-1, dtype=torch.float32)
    blocks, rest = choose(sum_blocks(p), draws)
    tokens = blocks[:, None] * TOKENS_PER_BLOCK + torch.arange(TOKENS_PER_BLOCK, device=p.device)
    masses = p.gather(-1, tokens.clamp(max=last)) * (tokens <= last)
    return (tokens[:, 0] + choose(masses, rest)[0]).clamp(max=last)


def sum_blocks(p: Float[Tensor, "n V"]) -> Float[Tensor, "n M"]:
    """The probability of each block; the last one has fewer tokens, or none."""
    count = p.shape[-1] // TOKENS_PER_BLOCK
    whole, rest = p.tensor_split([count * TOKENS_PER_BLOCK], dim=-1)
    sums = whole.unflatten(-1, (count, TOKENS_PER_BLOCK)).sum(-1)
    return torch.cat([sums, rest.sum(-1, keepdim=True)], -1)


def choose(
    masses: Float[Tensor, "n M"], draws: Float[Tensor, " n"]
) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
    """m with probability masses_m / sum, and the draw's rest: how far it reaches into m, in [0, 1).

    The rest is uniform again. Cumulative sums are a product with a triangle of ones, in double
    precision.
    """
    masses, count = masses.double(), masses.shape[-1]
    sums = masses @ masses.new_ones(count, count).triu()
    thresholds = draws.double().clamp(max=BELOW_ONE)[:, None] * sums[:, -1:]
    index = torch.searchsorted(sums, thresholds, right=True).clamp(max=count - 1)
    rest = 1 - (sums.gather(-1, index) - thresholds) / masses.gather(-1, index)
    return index[:, 0], rest[:, 0].clamp(0, BELOW_ONE)

"""Weights of attention maps that a 1x1 convolution mixes, on a GPU (TACO, 3.4).

weights = dropout(softmax(PReLU(W * [maps] + b)))

B batch   S queries   T = S keys   H heads   C maps, in groups of one product each

The kernels of `kernels.mixed_attention` read maps where the products left them, taps for instance
without a copy, and write gradients where the backward pass reads them. FLOPs are those of the
convolution; the backward pass mixes the maps again, which is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.flop_counter import register_flop_formula

from toolkit.nn.ops.kernel_inputs import MapSource, empty_by_head, empty_sums, to_rows, view_maps
from toolkit.nn.ops.kernels import define, draw_seed

MIX = "Tensor[] sources, int[] kinds, Tensor weight, Tensor bias, Tensor slope"
NORMALIZE = "Tensor scores, Tensor? padding, Tensor? seed, float rate"


MixedAttention = tuple[Float[Tensor, "B H S T"], Float[Tensor, "B h S T"], Float[Tensor, "B g S T"]]
"""Scores, and the weights of the heads of words and of positions."""


def mix_attention(
    sources: Sequence[MapSource],
    weight: Float[Tensor, "H C"],
    bias: Float[Tensor, " H"],
    slope: Float[Tensor, " H"],
    padding: Bool[Tensor, "B T"] | None,
    *,
    dropout: float,
    word_heads: int,
) -> MixedAttention:
    """PReLU(W * [maps] + b), and dropout(softmax of it), with padding masked."""
    seed = draw_seed(dropout, weight.device)
    dtype, kinds = sources[0].tensor.dtype, [source.kind for source in sources]
    tensors = [to_rows(*source) for source in sources]
    padding = None if padding is None else padding.contiguous()
    parameters = weight.to(dtype), bias.float(), slope.float()
    scores, words, positions = _MixedAttention.apply(
        *parameters, padding, seed, dropout, word_heads, kinds, *tensors
    )
    return scores, words, positions


@define("toolkit::mix_maps", schema=f"({MIX}) -> Tensor")
def mix_maps(
    sources: list[Tensor], kinds: list[int], weight: Tensor, bias: Tensor, slope: Tensor
) -> Tensor:
    """PReLU(W * [maps] + b)."""
    from toolkit.nn.ops.kernels.mixed_attention import launch_mix

    out = allocate_scores(sources, kinds, weight)
    launch_mix(view_maps(sources, kinds), weight, bias, slope, out)
    return out


@mix_maps.register_fake
def allocate_scores(
    sources: list[Tensor], kinds: list[int], weight: Tensor, *rest: Tensor
) -> Tensor:
    """Shape of the mixed scores, for compilers."""
    batch, _, length, _ = sources[0].shape
    return empty_by_head((batch, weight.shape[0], length, length), sources[0])


@define("toolkit::mix_maps_backward", schema=f"({MIX}, Tensor gradient) -> Tensor[]")
def mix_maps_backward(
    sources: list[Tensor],
    kinds: list[int],
    weight: Tensor,
    bias: Tensor,
    slope: Tensor,
    gradient: Tensor,
) -> list[Tensor]:
    """Summands of the gradients of weight, bias and slope, then the gradients of the sources."""
    from toolkit.nn.ops.kernels.mixed_attention import launch_mix_backward

    sums, *grads = allocate_gradients(sources, kinds, weight, bias, slope, gradient)
    maps, into = view_maps(sources, kinds), view_maps(grads, kinds)
    launch_mix_backward(maps, weight, bias, slope, gradient, into, sums, kinds)
    return [sums, *grads]


@mix_maps_backward.register_fake
def allocate_gradients(
    sources: list[Tensor], kinds: list[int], weight: Tensor, *rest: Tensor
) -> list[Tensor]:
    """Shapes of the gradients of the mixed maps, for compilers."""
    grads = [empty_by_head(source.shape, source) for source in sources]
    return [empty_sums(rest[-1], weight), *grads]


@define("toolkit::normalize_scores", schema=f"({NORMALIZE}) -> Tensor")
def normalize_scores(
    scores: Tensor, padding: Tensor | None, seed: Tensor | None, rate: float
) -> Tensor:
    """dropout(softmax(scores)), with padding masked; heads first."""
    from toolkit.nn.ops.kernels.mixed_attention import launch_normalize

    return launch_normalize(scores, padding, seed, rate)


@define(
    "toolkit::normalize_scores_backward",
    schema=f"({NORMALIZE}, Tensor of_words, Tensor of_positions, Tensor? of_scores) -> Tensor",
)
def normalize_scores_backward(
    scores: Tensor, padding: Tensor | None, seed: Tensor | None, rate: float, *gradients: Tensor
) -> Tensor:
    """The gradient of the scores: through the weights, and otherwise; heads first."""
    from toolkit.nn.ops.kernels.mixed_attention import launch_normalize_backward

    return launch_normalize_backward(scores, padding, seed, rate, gradients)


for operation in (normalize_scores, normalize_scores_backward):
    operation.register_fake(lambda scores, *rest: torch.empty_like(scores))


class _MixedAttention(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx, weight, bias, slope, padding, seed, rate, word_heads, kinds, *sources
    ):
        scores = mix_maps(list(sources), kinds, weight, bias, slope)
        by_head = scores.transpose(0, 1)
        weights = normalize_scores(by_head, padding, seed, rate)
        ctx.save_for_backward(weight, bias, slope, padding, seed, by_head, *sources)
        ctx.rate, ctx.kinds, ctx.word_heads = rate, kinds, word_heads
        ctx.set_materialize_grads(False)
        words, positions = weights.tensor_split([word_heads])
        return scores, words.transpose(0, 1), positions.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        weight, bias, slope, padding, seed, scores, *sources = ctx.saved_tensors
        of_scores, *of_weights = (
            None if g is None else g.transpose(0, 1).contiguous() for g in gradients
        )
        heads = ctx.word_heads, scores.shape[0] - ctx.word_heads
        of_weights = [
            scores.new_zeros(n, *scores.shape[1:]) if g is None else g
            for g, n in zip(of_weights, heads, strict=True)
        ]
        gradient = normalize_scores_backward(
            scores, padding, seed, ctx.rate, *of_weights, of_scores
        ).transpose(0, 1)
        sums, *grads = mix_maps_backward(sources, ctx.kinds, weight, bias, slope, gradient)
        of_weight, of_bias, of_slope = sums.sum(0).split([weight.shape[1], 1, 1], 1)
        of_parameters = of_weight.to(weight.dtype), of_bias[:, 0], of_slope[:, 0]
        return *of_parameters, None, None, None, None, None, *grads


def forward_flops(
    sources: list[torch.Size], kinds: list[int], weight: torch.Size, *rest: Any, **named: Any
) -> int:
    """FLOPs of the forward pass."""
    batch, _, length, _ = sources[0]
    return 2 * batch * length * length * weight.numel()


def backward_flops(*arguments: Any, **named: Any) -> int:
    """Of the gradients of the maps and of the weight."""
    return 2 * forward_flops(*arguments)


register_flop_formula(torch.ops.toolkit.mix_maps)(forward_flops)
register_flop_formula(torch.ops.toolkit.mix_maps_backward)(backward_flops)

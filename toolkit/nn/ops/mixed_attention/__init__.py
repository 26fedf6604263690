"""Weights of attention maps that a 1x1 convolution mixes, on a GPU (TACO, 3.4).

weights = dropout(softmax(PReLU(W * [maps] + b)))

B batch   S queries   T = S keys   H heads   C maps, in groups of one product each

The kernels read maps where the products left them, with any strides, taps for instance without a
copy, and write gradients where the products of the backward pass read them. Plain operations would
copy every map into one tensor, and write six more of the size of the scores.
"""

from toolkit.nn.ops.mixed_attention.operation import (
    MixedAttention,
    mix_attention,
    mixes_by_kernels,
)
from toolkit.nn.ops.mixed_attention.sources import KEY_TAPS, MAP, QUERY_TAPS, MapSource

__all__ = [
    "KEY_TAPS",
    "MAP",
    "QUERY_TAPS",
    "MapSource",
    "MixedAttention",
    "mix_attention",
    "mixes_by_kernels",
]

"""First weights."""

from __future__ import annotations

import math

from torch import Tensor, nn

INIT_STD = 0.02
TRUNCATED_NORMAL_STD = 0.87962566103423978
"""That of N(0, 1) cut at -2 and 2."""


def init_bert_weights(module: nn.Module) -> None:
    """Linear and Embedding ~ N(0, 0.02), biases 0, LayerNorm (1, 0); what else there is, as it is.

    As in the torch code of Chang et al. 2021, where convolutions keep torch's default and the
    kernels of attention bring their own; the TensorFlow repositories cut the normal at 2 sigma.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=INIT_STD)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def init_transformer_weights(module: nn.Module) -> None:
    """Linear ~ Glorot's uniform, biases 0, Embedding ~ N(0, 1 / width).

    As translation models have begun since Vaswani et al. 2017, whose tables are multiplied by
    sqrt(width) where they are looked up and not where they are scores (section 3.4).
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)


def glorot_uniform_(weights: Tensor, fan_in: int | float, fan_out: int | float) -> None:
    """U(-a, a), a = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010, eq. 16)."""
    bound = math.sqrt(6 / (fan_in + fan_out))
    nn.init.uniform_(weights, -bound, bound)


def glorot_normal_(weights: Tensor, fan_in: int | float, fan_out: int | float) -> None:
    """Variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010), a normal cut at 2 deviations.

    As in Keras, whose normal is widened first so that the cut leaves it the variance asked for.
    """
    deviation = math.sqrt(2 / (fan_in + fan_out)) / TRUNCATED_NORMAL_STD
    nn.init.trunc_normal_(weights, std=deviation, a=-2 * deviation, b=2 * deviation)

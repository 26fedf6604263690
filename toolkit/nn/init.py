"""Building models: initial weights, copies of tables to a device."""

from __future__ import annotations

import math

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

INIT_STD = 0.02
TRUNCATED_NORMAL_STD = 0.87962566103423978
"""Standard deviation of N(0, 1) truncated at -2 and 2."""


def init_bert_weights(module: nn.Module) -> None:
    """Linear and Embedding ~ N(0, 0.02), biases 0, LayerNorm (1, 0); all else is left unchanged, as
    in the torch code of Chang et al. 2021 (TensorFlow repositories truncate the normal at 2 sigma).
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=INIT_STD)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def init_transformer_weights(module: nn.Module) -> None:
    """Linear ~ Glorot's uniform, biases 0, Embedding ~ N(0, 1 / width), as in translation models
    since Vaswani et al. 2017, who multiply the tables by sqrt(width) in the input only (section
    3.4).
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
    """Variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010), a normal truncated at 2 sigma.

    As in Keras, the normal is widened first so that its variance is right after the truncation.
    """
    std = math.sqrt(2 / (fan_in + fan_out)) / TRUNCATED_NORMAL_STD
    nn.init.trunc_normal_(weights, std=std, a=-2 * std, b=2 * std)


def remove_biases(module: nn.Module) -> None:
    """Remove the biases of all linear maps and norms; convolutions and grouped maps keep theirs."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.LayerNorm):
            part.register_parameter("bias", None)


def copy_to_device(table: Shaped[Tensor, "*shape"], device: torch.device) -> Tensor:
    """The table on the device; from pinned memory, so that the host does not wait for a GPU."""
    if device.type == "cuda":
        return table.pin_memory().to(device, non_blocking=True)
    return table.to(device)

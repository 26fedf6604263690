"""Cross-entropy of logits and its gradient in their place, as one operation on a GPU.

loss_n = -(1 - s) log p_n(target_n) - s mean_c log p_n(c), p = softmax of the logits
d loss_n / d logits_n = p_n - (1 - s) onehot(target_n) - s / C

Computed by `kernels.cross_entropy`: logits are read twice and written once. Torch's operations
would write several matrices in fp32.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toolkit.nn.ops.kernels import define

SCHEMA = "(Tensor(a!) logits, Tensor targets, Tensor valid, int classes, float smoothing) -> Tensor"


@define("toolkit::replace_by_gradient", mutates_args=("logits",), schema=SCHEMA)
def replace_by_gradient(
    logits: Tensor, targets: Tensor, valid: Tensor, classes: int, smoothing: float
) -> Tensor:
    """The loss of each row, in fp32; 0, with gradients of 0, where it is not valid.

    logits (N, P), P >= C; columns from C on count as -inf. targets and valid (N).
    """
    from toolkit.nn.ops.kernels.cross_entropy import launch

    losses = allocate_losses(logits, targets, valid, classes, smoothing)
    launch(logits, targets, valid, losses, classes, smoothing)
    return losses


@replace_by_gradient.register_fake
def allocate_losses(
    logits: Float[Tensor, "N P"],
    targets: Int[Tensor, " N"],
    valid: Bool[Tensor, " N"],
    classes: int,
    smoothing: float,
) -> Float[Tensor, " N"]:
    """Shape of the losses, for compilers."""
    return logits.new_empty(len(logits), dtype=torch.float32)

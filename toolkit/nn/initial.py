"""First weights."""

from __future__ import annotations

from torch import nn

STANDARD_DEVIATION = 0.02


def initialise(module: nn.Module) -> None:
    """Linear and Embedding ~ N(0, 0.02), biases 0, LayerNorm (1, 0); what else there is, as it is.

    As in the torch code of Chang et al. 2021, where convolutions keep torch's default and the
    kernels of attention bring their own; the TensorFlow repositories cut the normal at 2 sigma.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=STANDARD_DEVIATION)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)

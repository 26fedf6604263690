"""FLOPs of mixed attention maps: those of a 1x1 convolution.

The backward pass mixes the maps again, which is not counted.
"""

from __future__ import annotations

from typing import Any

import torch


def forward_flops(
    sources: list[torch.Size], kinds: list[int], weight: torch.Size, *rest: Any, **named: Any
) -> int:
    """FLOPs of the forward pass."""
    batch, _, length, _ = sources[0]
    return 2 * batch * length * length * weight.numel()


def backward_flops(*arguments: Any, **named: Any) -> int:
    """Of the gradients of the maps and of the weight."""
    return 2 * forward_flops(*arguments)

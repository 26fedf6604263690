"""FLOPs by torch's formulas, attributed to the parts of a model.

A multiplication and an addition are two. Only matrix products and convolutions are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import conv_flop_count, flop_registry, sdpa_flop_count


def cpu_attention_flops(q: Any, k: Any, v: Any, *others: Any, **named: Any) -> int:
    """softmax(q k') v on a CPU, which torch does not count."""
    return sdpa_flop_count(q.shape, k.shape, v.shape)


def convolution_backward_flops(
    gradient: Any, x: Any, weight: Any, *others: Any, **named: Any
) -> int:
    """The forward's once for each of the gradients of x and weight that is asked for.

    Torch's own formula counts a depthwise one as if every channel met every other.
    """
    *_, transposed, _, _, asked = others
    once = conv_flop_count(
        list(x.shape), list(weight.shape), list(gradient.shape), transposed=transposed
    )
    return once * sum(asked[:2])


FORMULAS = {
    **flop_registry,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: cpu_attention_flops,
    torch.ops.aten.convolution_backward: convolution_backward_flops,
}


class FlopCounter(TorchDispatchMode):
    """Counts the FLOPs of the operations in its block, by `owner`."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = ""
        self.by_owner: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self.by_owner.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        if count := FORMULAS.get(func.overloadpacket):
            self.by_owner[self.owner] += count(*args, **kwargs, out_val=found)
        return found


@contextmanager
def attribute_flops(counter: FlopCounter, parts: Mapping[str, nn.Module]) -> Iterator[None]:
    """Lets the operations of these modules be theirs, of one inside another the inner one's.

    Backwards too: a gradient is computed from tensors that were saved for it, and each of these
    knows whose they are.
    """
    outer: list[str] = []

    def enter(name: str) -> Any:
        def hook(module: nn.Module, given: Any) -> None:
            outer.append(counter.owner)
            counter.owner = name

        return hook

    def leave(module: nn.Module, given: Any, found: Any) -> None:
        counter.owner = outer.pop()

    def load(saved: tuple[str, Tensor]) -> Tensor:
        counter.owner, tensor = saved
        return tensor

    hooks = [m.register_forward_pre_hook(enter(name)) for name, m in parts.items()]
    hooks += [m.register_forward_hook(leave) for m in parts.values()]
    try:
        with saved_tensors_hooks(lambda tensor: (counter.owner, tensor), load):
            yield
    finally:
        for hook in hooks:
            hook.remove()

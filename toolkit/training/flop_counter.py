"""FLOPs by torch's formulas, attributed to the modules of a model.

A multiply-add is two FLOPs. Only matrix products and convolutions are counted.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, is_tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import conv_flop_count, flop_registry, sdpa_flop_count
from torch.utils.weak import WeakTensorKeyDictionary


def cpu_attention_flops(q: Tensor, k: Tensor, v: Tensor, *rest: object, **named: object) -> int:
    """softmax(q k') v on a CPU, which torch does not count."""
    return sdpa_flop_count(q.shape, k.shape, v.shape)


def convolution_backward_flops(
    gradient: Tensor, x: Tensor, weight: Tensor, *rest: Any, **named: object
) -> int:
    """The FLOPs of the forward pass, once for each required gradient of x and weight; torch's
    formula counts a depthwise convolution as if it were a full one.
    """
    *_, transposed, _, _, required = rest
    once = conv_flop_count(
        list(x.shape), list(weight.shape), list(gradient.shape), transposed=transposed
    )
    return once * sum(required[:2])


OWN_FORMULAS: dict[Any, Callable[..., int]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: cpu_attention_flops,
    torch.ops.aten.convolution_backward: convolution_backward_flops,
}
FORMULAS = ChainMap(OWN_FORMULAS, flop_registry)
"""Operation -> formula. Registered operations of the toolkit add theirs to torch's registry."""


class FlopCounter(TorchDispatchMode):
    """Counts the FLOPs of the operations in its block, by `owner`.

    `backward` estimates their backward pass: the FLOPs of an operation, once for each of at most
    two factors that depend on a trained parameter. It is known without gradients, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.owner = ""
        self.by_owner: Counter[str] = Counter()
        self.backward = 0
        self.trained = WeakTensorKeyDictionary()
        """Results that depend on a trained parameter."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import Dynamo, which ignores code in a dispatch mode anyway."""
        return False

    @property
    def total(self) -> int:
        return self.by_owner.total()

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> object:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        trained = [each for each in given if each.requires_grad or each in self.trained]
        if trained:
            self.trained.update({each: True for each in tree_leaves(result) if is_tensor(each)})
        if formula := FORMULAS.get(func.overloadpacket):
            flops = formula(*args, **kwargs, out_val=result)
            self.by_owner[self.owner] += flops
            self.backward += flops * min(2, sum(factor.dim() > 1 for factor in trained))
        return result


@contextmanager
def attribute_flops(counter: FlopCounter, parts: Mapping[str, nn.Module]) -> Iterator[None]:
    """Attribute operations to the innermost of these modules, in the backward pass as well: tensors
    that the forward pass saves carry the name of their module.
    """
    outer: list[str] = []

    def enter(name: str, module: nn.Module, inputs: object) -> None:
        outer.append(counter.owner)
        counter.owner = name

    def leave(module: nn.Module, inputs: object, outputs: object) -> None:
        counter.owner = outer.pop()

    def load(saved: tuple[str, Tensor]) -> Tensor:
        counter.owner, tensor = saved
        return tensor

    hooks = [m.register_forward_pre_hook(partial(enter, name)) for name, m in parts.items()]
    hooks += [m.register_forward_hook(leave) for m in parts.values()]
    try:
        with saved_tensors_hooks(lambda tensor: (counter.owner, tensor), load):
            yield
    finally:
        for hook in hooks:
            hook.remove()

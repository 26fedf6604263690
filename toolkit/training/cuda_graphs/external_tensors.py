"""Tensors that a piece of work reads but did not make."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class ExternalTensors(TorchDispatchMode):
    """Collects the tensors that operations read and no operation inside has made.

    A CUDA graph reads them by address: whoever keeps a graph keeps them too. Autograd's threads
    inherit the mode.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, Tensor] = {}
        """By the address of their storage."""
        self.made: set[int] = set()
        """Addresses of what was made inside; those of tensors that exist already are not reused."""

    @property
    def tensors(self) -> list[Tensor]:
        return list(self.found.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor) and storage_address(tensor) not in self.made:
                self.found.setdefault(storage_address(tensor), tensor)
        out = func(*args, **kwargs)
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and storage_address(tensor) not in self.found:
                self.made.add(storage_address(tensor))
        return out


def storage_address(tensor: Tensor) -> int:
    """The address of a tensor's memory, which its views share."""
    return tensor.untyped_storage().data_ptr()

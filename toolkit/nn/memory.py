"""Memory of a model: a limit while it is built, and copies of small tables to its device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from toolkit.common.errors import ToolkitError
from toolkit.common.system import memory_bytes


@contextmanager
def memory_limit() -> Iterator[None]:
    """Raise a ToolkitError once the parameters built inside exceed the machine's memory.

    Without it the system ends the process, without a message.
    """
    limit, total = memory_bytes(), 0

    def count(module: nn.Module, name: str, parameter: Tensor | None) -> None:
        nonlocal total
        if parameter is not None and parameter.device.type != "meta":
            total += parameter.nbytes
        if limit is not None and total > limit:
            raise ToolkitError(
                f"The model must fit into memory, which has {limit / 2**30:.0f} GiB, but its "
                f"parameters do not. Reduce its layers or widths."
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def copy_to_device(table: Shaped[Tensor, "*shape"], device: torch.device) -> Tensor:
    """The table on the device; from pinned memory, so that the host does not wait for a GPU."""
    if device.type == "cuda":
        return table.pin_memory().to(device, non_blocking=True)
    return table.to(device)

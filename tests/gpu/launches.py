"""Operations on a fake GPU: how many start a kernel, what memory they touch, which ones wait."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

QUESTIONS = {"device", "dim", "size", "stride", "sym_size", "sym_stride", "is_contiguous"}
"""What a tensor is asked through the same door as operations."""
WITHOUT_KERNEL = {
    *("_unsafe_view", "detach", "detach_", "alias", "_reshape_alias", "lift_fresh"),
    *("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"),
    *("_local_scalar_dense",),
}
"""Operations besides views that start no kernel."""
ROW_READERS = {"index_select", "embedding", "gather"}
"""Operations that read as much of their first tensor as they write."""
ONE_PRECISION = {"native_layer_norm"}
"""Operations whose kernels on a GPU require tensors of one type, which fake tensors do not."""
ROW_WRITERS = {"scatter_add_"}
"""Operations that read and write as much of their first tensor as they read of the last."""
TOOLKIT = Path(__file__).parents[2] / "toolkit"


class LaunchCounter(TorchDispatchMode):
    """Counts by phase; a wait for the device is recorded and answered with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = "forward"
        self.launches: Counter[tuple[str, str]] = Counter()
        """Of each phase and operation."""
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.waits: list[str] = []
        """Operations that wait for the device, with the function that asked for them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, name_of(func)
        if name in QUESTIONS:
            return func(*args, **kwargs)
        if waits_for_device(name, args, kwargs):
            self.waits.append(f"{name} in {calling_function()}")
        if name in ONE_PRECISION and on_gpu(args[0]):
            types = {t.dtype for t in tensors((args, kwargs))}
            assert len(types) == 1, f"{name} of {types} in {calling_function()}"
        out = ANSWERS.get(name, func)(*args, **kwargs)
        if not func.is_view and name not in WITHOUT_KERNEL:
            read, written = list(tensors((args, kwargs))), list(tensors(out))
            in_place = written if name.endswith("_") else mutated_arguments(func, args)
            self.count(name, read, written, in_place)
        return out

    def count(
        self, name: str, read: list[Tensor], written: list[Tensor], in_place: list[Tensor]
    ) -> None:
        """`in_place` are tensors among them that are read and written."""
        if not any(t.device.type == "cuda" for t in (*read, *written)):
            return
        read = [*written[:1], *read[1:]] if name in ROW_READERS else read
        if name in ROW_WRITERS:
            read, written, in_place = read[1:], [], read[-1:]
        distinct = {id(t): t for t in (*read, *written)}
        size = sum(map(touched_bytes, distinct.values()))
        size += sum(map(touched_bytes, in_place))
        self.launches[self.phase, name] += 1
        self.bytes[self.phase, name] += size

    def by_phase(self, counts: Counter[tuple[str, str]]) -> dict[str, int]:
        """Their sums; the order of the phases is that of an update."""
        found = dict.fromkeys(("forward", "backward", "optimizer"), 0)
        for (phase, _), number in counts.items():
            found[phase] += number
        return found


@cache
def name_of(func: Any) -> str:
    return str(func._schema.name.split("::")[1])


def tensors(values: Any) -> Iterable[Tensor]:
    return (value for value in tree_leaves(values) if isinstance(value, Tensor))


def mutated_arguments(func: Any, args: Any) -> list[Tensor]:
    """Those that an operation of the toolkit writes; torch's have names that end in "_"."""
    written = (a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments)
    return [arg for arg, is_written in zip(args, written, strict=False) if is_written]


def touched_bytes(t: Tensor) -> int:
    """Size of a tensor; an expanded axis counts once."""
    size = t.element_size()
    for length, stride in zip(t.shape, t.stride(), strict=True):
        size *= length if stride else 1
    return size


def on_gpu(value: Any) -> bool:
    return isinstance(value, Tensor) and value.device.type == "cuda"


def waits_for_device(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an operation cannot return before the device has done what was asked so far."""
    if name in {"_local_scalar_dense", "nonzero", "bincount", "masked_select", "equal", "unique2"}:
        return on_gpu(args[0])
    if name == "_to_copy" and not kwargs.get("non_blocking"):
        target = torch.device(kwargs.get("device") or args[0].device).type
        return {args[0].device.type, target} == {"cpu", "cuda"}
    if name == "copy_" and args[1].dim():
        blocking = not (kwargs.get("non_blocking") or args[2:3] == (True,))
        return blocking and on_gpu(args[0]) != on_gpu(args[1])
    return name == "index" and any(on_gpu(i) and i.dtype == torch.bool for i in args[1])


def read_number(t: Tensor) -> float:
    """Zero from the device; one on the host, whose numbers count updates."""
    return 0.0 if on_gpu(t) else 1.0


def empty_counts(t: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    return t.new_empty(minlength)


ANSWERS: dict[str, Callable[..., Any]] = {
    "_local_scalar_dense": read_number,
    "bincount": empty_counts,
    **dict.fromkeys(("_fused_sgd_", "_fused_adam_", "_fused_adamw_"), lambda *_, **__: None),
}
"""What operations give that depend on numbers, which fake tensors do not have, or that torch knows
no shapes for: of fused Adam only if the learning rate is a tensor."""


def calling_function() -> str:
    """The innermost function of the toolkit that is running."""
    frames = [f for f in traceback.extract_stack() if f.filename.startswith(f"{TOOLKIT}/")]
    if not frames:
        return "the test"
    return f"{Path(frames[-1].filename).relative_to(TOOLKIT.parent)}:{frames[-1].name}"

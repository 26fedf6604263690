"""Triton's interpreter, with two of its faults repaired.

In Triton 3.6 a product of bf16 blocks multiplies their bit patterns, and a loop bound that a kernel
has loaded from memory cannot be read with numpy 2.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter


def repair() -> None:
    """Before the first kernel runs."""
    interpreter.InterpreterBuilder.create_dot = create_dot
    patch_tensor = interpreter._patch_lang_tensor

    def patch_tensor_and_index(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_tensor_and_index


def create_dot(builder: Any, a: Any, b: Any, d: Any, *precision: Any) -> Any:
    """a b + d, in the format of d."""
    product = np.matmul(to_numbers(a), to_numbers(b), dtype=d.data.dtype)
    return interpreter.TensorHandle(product + d.data, d.dtype.scalar)


def to_numbers(x: Any) -> Any:
    """A block as numpy has numbers: bf16 is the upper half of fp32."""
    if x.dtype.scalar == tl.bfloat16:
        return (x.data.astype(np.uint32) << 16).view(np.float32)
    return x.data

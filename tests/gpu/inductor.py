"""Inductor on the fake GPU: the kernels that it plans for a compiled module, and their traffic.

Its scheduler decides what is fused; code is neither generated nor compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import torch._functorch.config
import torch._inductor.config
from torch import fx
from torch._dynamo import device_interface
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._inductor.compile_fx import view_to_reshape
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.post_grad import post_grad_passes
from torch._inductor.fx_passes.replace_random import replace_random_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._triton import has_triton

PROPERTIES = SimpleNamespace(
    **{"name": "NVIDIA H200", "major": 9, "minor": 0, "multi_processor_count": 132},
    **{"total_memory": 141 << 30, "L2_cache_size": 60 << 20, "warp_size": 32},
    **{"regs_per_multiprocessor": 65536, "max_threads_per_multi_processor": 2048},
    **{"max_threads_per_block": 1024, "shared_memory_per_block_optin": 232448},
)
"""What Inductor asks of a GPU."""
NAMESPACES = {"torch", "ops", "aten", "toolkit", "extern_kernels"}
SETTINGS = {
    **{"joint_graph_constant_folding": False, "pattern_matcher": False, "shape_padding": False},
    **{"fx_graph_cache": False, "compile_threads": 1},
}


class Kernel(NamedTuple):
    """One launch."""

    operation: str
    """Of torch or the toolkit, if the kernel is not Inductor's; else empty."""
    bytes: int
    """Read and written."""


class Plan(NamedTuple):
    forward: list[Kernel]
    backward: list[Kernel]


@contextmanager
def simulated_gpu(*, fallback_random: bool) -> Iterator[None]:
    """Inductor takes the fake device for an H200; see its option of that name."""
    settings = {**SETTINGS, "fallback_random": fallback_random}
    answers: dict[Any, dict[str, Any]] = {
        torch.cuda: {"get_device_properties": PROPERTIES},
        device_interface.CudaInterface: {
            **{"get_device_properties": PROPERTIES, "get_compute_capability": 90},
            **{"is_available": True, "current_device": 0},
        },
        device_interface.CudaInterface.Worker: {"get_device_properties": PROPERTIES},
    }
    with ExitStack() as stack:
        stack.enter_context(torch._inductor.config.patch(settings))
        stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        for owner, functions in answers.items():
            for name, answer in functions.items():
                reply = partial(reply_with, answer)
                stack.enter_context(patch.object(owner, name, staticmethod(reply)))
        has_triton.cache_clear()  # others may have asked without the answers
        stack.callback(has_triton.cache_clear)
        yield


def reply_with(answer: Any, *args: Any, **kwargs: Any) -> Any:
    return answer


def planning_backend(plan: Plan) -> Any:
    """A backend of torch.compile that adds the kernels of each graph to the plan."""

    def compile_into(
        kernels: list[Kernel], graph: fx.GraphModule, inputs: Any
    ) -> Callable[..., Any]:
        kernels += plan_kernels(graph, is_backward=kernels is plan.backward)
        return fx_runner(graph)

    return aot_autograd(
        fw_compiler=partial(compile_into, plan.forward),
        bw_compiler=partial(compile_into, plan.backward),
        partition_fn=partition,
        decompositions=select_decomp_table,
    )


def fx_runner(graph: fx.GraphModule) -> Callable[..., Any]:
    def run(arguments: list[Any]) -> Any:
        return graph.forward(*arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def partition(graph: fx.GraphModule, inputs: Any, **options: Any) -> Any:
    """Forward and backward, as Inductor divides them."""
    if not torch._inductor.config.fallback_random:
        with V.set_fake_mode(detect_fake_mode(inputs) or TracingContext.get().fake_mode):
            replace_random_passes(graph)
    return min_cut_rematerialization_partition(graph, inputs, compiler="inductor", **options)


def plan_kernels(graph: fx.GraphModule, *, is_backward: bool) -> list[Kernel]:
    """The scheduler's kernels, as far as they touch memory."""
    inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    mode = detect_fake_mode(inputs)
    with unset_fake_temporarily(), V.set_fake_mode(mode), tracing(TracingContext(mode)):
        view_to_reshape(graph)
        with V.set_fake_mode(mode):
            post_grad_passes(graph, is_inference=False)
        lowering = GraphLowering(graph, example_inputs=inputs, is_backward=is_backward)
        with V.set_graph_handler(lowering), V.set_debug_handler(DebugContext()):
            lowering.run(*inputs)
            lowering.init_wrapper_code()
            lowering._update_scheduler()
            nodes = [
                Kernel(name_of(node), int(node.get_read_write_buffers_sizes()))
                for node in lowering.scheduler.nodes
            ]
    return [kernel for kernel in nodes if kernel.bytes]


def name_of(node: Any) -> str:
    """mm for extern_kernels.mm, relative_attention for torch.ops.toolkit.relative_attention."""
    if not node.is_extern():
        return ""
    parts = str(node.node.python_kernel_name).split(".")
    return next(part for part in parts if part not in NAMESPACES)

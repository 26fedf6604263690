"""Inductor's plans on the fake GPU: what it fuses, and what it leaves as it is."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from tests.gpu.batches import Shape
from tests.gpu.steps import Case, fake_device

pytestmark = pytest.mark.usefixtures("triton_installed")
ROWS, WIDTH = 4096, 512
SIZE = 2 * ROWS * WIDTH
"""Bytes of a tensor of 16-bit numbers."""


def plan_dropout_of_gelu(fallback_random):
    """The plan of 2 dropout(gelu(x)) + 1."""
    import torch
    from torch.nn import functional as F

    from tests.gpu.inductor import Plan, planning_backend, simulated_gpu

    torch._dynamo.reset()
    plan = Plan([], [])
    with fake_device(), simulated_gpu(fallback_random=fallback_random):
        x = torch.empty(ROWS, WIDTH, dtype=torch.bfloat16, device="cuda", requires_grad=True)
        function = torch.compile(
            lambda x: 2 * F.dropout(F.gelu(x), 0.1) + 1,
            backend=planning_backend(plan),
            dynamic=False,
        )
        function(x).sum().backward()
    return plan


def test_plan_fuses_elementwise_operations_into_one_kernel_each_way(fake_cuda):
    plan = fake_cuda(plan_dropout_of_gelu, False)
    (forward,), (backward,) = (
        [kernel for kernel in kernels if kernel.bytes >= SIZE] for kernels in plan
    )
    assert forward.operation == backward.operation == ""
    mask = SIZE / 2
    assert forward.bytes == pytest.approx(2 * SIZE + mask, rel=0.01), "x, result and mask"
    assert backward.bytes == pytest.approx(3 * SIZE + mask, rel=0.01), "x, gradients and mask"


def test_dropout_with_the_numbers_of_other_layers_is_not_fused(fake_cuda):
    plan = fake_cuda(plan_dropout_of_gelu, True)
    assert "native_dropout" in {kernel.operation for kernel in plan.forward}


def measure_only_layer():
    """Eager launches, the plan and its savings."""
    from tests.gpu.fusion import estimate_savings, measure_layers

    shape = Shape(512, 64)
    case = Case(arch="composite_bert_tiny", task="mlm", shape=shape, options={"layers": 1})
    [fusion] = measure_layers(case)
    launches = Counter({name: number for (_, name), number in fusion.eager.launches.items()})
    return launches, fusion.compiled, estimate_savings(fusion)


def test_plan_of_a_layer_leaves_products_and_kernels_of_the_toolkit_as_they_are(fake_cuda):
    launches, plan, savings = fake_cuda(measure_only_layer)
    planned = Counter(kernel.operation for kernel in chain(*plan))
    for name in ("relative_attention", "add_norm"):
        assert planned[name] == launches[name] > 0
        assert planned[f"{name}_backward"] == launches[f"{name}_backward"] > 0
    products = "mm", "addmm", "bmm"
    assert sum(planned[name] for name in products) == sum(launches[name] for name in products)
    assert savings.host > 0

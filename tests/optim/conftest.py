"""Five updates by an optimizer compared with its paper's loop in float64."""

from __future__ import annotations

import pytest
import torch

from toolkit.common.registry import OPTIMIZERS

SHAPES = {
    "encoder.layers.0.output.weight": (4, 3),
    "encoder.layers.0.wide.weight": (3, 5),
    "encoder.layers.0.output.bias": (3,),
    "encoder.layers.0.values.convolution.weight": (4, 1, 3),
    "task.head.transform.weight": (2, 3),
}


@pytest.fixture
def largest_difference():
    """Largest difference between an optimizer and `loop(p, gradients, name)` after 5 updates."""

    def find(name, loop, **options):
        torch.manual_seed(0)
        initial = {n: torch.randn(shape) for n, shape in SHAPES.items()}
        gradients = {n: torch.randn(5, *shape) for n, shape in SHAPES.items()}
        parameters = {n: torch.nn.Parameter(p.clone()) for n, p in initial.items()}
        config = type(OPTIMIZERS[name].config)(**options)
        optimizer = OPTIMIZERS[name].factory(config, list(parameters.items()))
        for update in range(5):
            for n, p in parameters.items():
                p.grad = gradients[n][update].clone()
            optimizer.step()
        expected = {n: loop(initial[n].double(), gradients[n].double(), n) for n in SHAPES}
        return max(float((parameters[n].detach() - expected[n]).abs().max()) for n in SHAPES)

    return find

"""Where Triton kernels run, and the seeds of their dropout."""

from __future__ import annotations

import torch
from torch import nn

from toolkit.nn.layers import LayerStack
from toolkit.nn.ops import kernels as register
from toolkit.nn.ops.kernels import draw_seed, drawing_seeds, triton_runs

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_kernels_run_on_cuda_up_to_single_precision(monkeypatch):
    monkeypatch.setattr(register, "has_triton", lambda: True)
    assert triton_runs(CUDA, torch.bfloat16)
    assert triton_runs(CUDA, torch.float32)
    assert not triton_runs(CUDA, torch.float64)
    assert not triton_runs(CPU, torch.float32)


def test_kernels_need_triton(monkeypatch):
    monkeypatch.setattr(register, "has_triton", lambda: False)
    assert not triton_runs(CUDA, torch.float32)


def test_a_seed_follows_the_generator_and_is_drawn_for_dropout_only():
    torch.manual_seed(1)
    first = draw_seed(0.1, CPU)
    assert not torch.equal(first, draw_seed(0.1, CPU))
    torch.manual_seed(1)
    assert draw_seed(0.0, CPU) is None
    assert torch.equal(first, draw_seed(0.1, CPU))


def draw_three():
    """As a pass does that starts from the same state of the generator."""
    torch.manual_seed(1)
    with drawing_seeds(together=True):
        return [draw_seed(0.1, CPU) for _ in range(3)]


def test_seeds_that_are_drawn_together_differ_and_follow_the_generator_of_each_pass():
    first, second = draw_three(), draw_three()
    assert torch.equal(torch.cat(first), torch.cat(second))
    assert len({int(seed) for seed in first}) == 3
    assert all(seed.storage_offset() * seed.element_size() % 16 == 0 for seed in first)


class Scaled(nn.Module):
    """x times a random number, as dropout multiplies by a random mask."""

    def forward(self, x, *context):
        return x * (draw_seed(0.1, CPU) % 1000)


def test_a_recomputed_layer_draws_the_seed_again_that_its_forward_pass_had():
    layers, x = LayerStack([Scaled(), Scaled()]), torch.ones(1, requires_grad=True)
    layers.checkpoint_activations = True
    with drawing_seeds(together=True):
        y = layers(x, None)
    y.backward()
    assert torch.equal(x.grad, y.detach())

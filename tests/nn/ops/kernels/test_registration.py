"""Where Triton kernels run, and the seeds of their dropout."""

from __future__ import annotations

import torch

from toolkit.nn.ops import kernels as register
from toolkit.nn.ops.kernels import draw_seed, triton_runs

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

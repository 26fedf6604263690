"""What operations with Triton kernels share: when they run, their registration, and dropout."""

from toolkit.nn.ops.triton_operations.register import define, draw_seed, triton_runs

__all__ = ["define", "draw_seed", "triton_runs"]

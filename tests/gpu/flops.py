"""FLOPs of a model on the fake GPU, with its Triton kernels and with plain operations."""

from __future__ import annotations

from typing import NamedTuple
from unittest.mock import patch

import torch

from tests.gpu.batches import BATCHES
from tests.gpu.steps import DEVICE, Case, build_trainer, fake_device
from toolkit.nn.ops import kernels as register
from toolkit.tasks.examples import to_device
from toolkit.training.flop_counter import FlopCounter


class Flops(NamedTuple):
    forward: int
    backward: int


def count_both(case: Case) -> tuple[Flops, Flops]:
    """With kernels, then without."""
    with_kernels = count_flops(case)
    with patch.object(register, "find_spec", lambda name: None):
        plain = count_flops(case)
    return with_kernels, plain


def count_flops(case: Case) -> Flops:
    with fake_device(), FlopCounter() as counter:
        trainer = build_trainer(case)
        batch = to_device(BATCHES[case.task](case.shape), DEVICE)
        totals = trainer.criterion(trainer.learner(batch))
        forward = counter.total
        torch.stack(list(totals.values())).sum().backward()
    return Flops(forward, counter.total - forward)

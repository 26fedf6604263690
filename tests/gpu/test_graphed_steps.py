"""CUDA graphs on a fake GPU: they hold the whole update, and nothing of the host."""

from __future__ import annotations

import pytest

from tests.gpu.cases import OPTIMIZERS, QUICK, Case
from tests.gpu.graphed_steps import take_graphed_step

ADAM = ("adam", "adamw")
CASES = [case for case in QUICK if case.optimizer in ADAM]
MAX_LAUNCHES = 40
"""Copies of the batch and of numbers, and of losses."""


def summarize(case):
    """Plain values, which another process can send."""
    step = take_graphed_step(case)
    on_host = [line for region in step.regions for line in (*region.on_host, *region.waits)]
    return (
        [region.launches.total() for region in step.regions],
        on_host,
        step.outside.launches.total(),
        step.outside.waits,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_graphs_hold_the_update_and_nothing_of_the_host(case, fake_cuda):
    captured, on_host, launches, waits = fake_cuda(summarize, case)
    assert len(captured) == 2 and min(captured) > 10, "gradient and update"
    assert not on_host
    assert launches < MAX_LAUNCHES and not waits


@pytest.mark.parametrize("optimizer", sorted({*OPTIMIZERS} - {*ADAM}))
def test_other_optimizers_step_without_a_graph(optimizer, fake_cuda):
    case = Case(arch="bert_tiny", task="mlm", optimizer=optimizer, options={"layers": 1})
    captured, on_host, _, waits = fake_cuda(summarize, case)
    assert len(captured) == 1 and not on_host and not waits

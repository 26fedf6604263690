"""Whole updates on a fake GPU: devices and types agree, nothing waits, launches are as stored."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from tests.gpu.cases import QUICK, SWEEP, Case
from tests.gpu.conftest import NO_TRITON
from tests.gpu.steps import count_update
from tests.gpu.stored_counts import STEPS, base_version, load_counts, to_row


def check_update(case: Case, fake_cuda) -> None:
    counts = fake_cuda(count_update, case)
    assert not counts.waits
    stored = load_counts(STEPS)
    if base_version(torch.__version__) != stored["torch"]:
        pytest.skip(f"counts are stored for torch {stored['torch']}")
    if find_spec("triton") is None:
        pytest.skip(NO_TRITON)
    assert to_row(counts.launches, counts.bytes) == stored["cases"][case.name], (
        "launches or bytes differ: if that is meant, run python -m tests.gpu.stored_counts"
    )


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_an_update_on_a_gpu_waits_for_nothing_and_launches_as_before(case, fake_cuda):
    check_update(case, fake_cuda)


@pytest.mark.slow
@pytest.mark.parametrize("case", SWEEP, ids=lambda case: case.name)
def test_every_kind_of_update_on_a_gpu_waits_for_nothing(case, fake_cuda):
    check_update(case, fake_cuda)

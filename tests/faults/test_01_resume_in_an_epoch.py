"""Scenario 1: two epochs of five updates, stopped anywhere and resumed bit for bit."""

from __future__ import annotations

import pytest

OPTIONS = {"validate_interval_updates": 2, "patience": 5, "lr": 0.01, "warmup_updates": 3}
MORE = {"batch_size": 2, "update_freq": 4, "num_workers": 2, "precision": "bf16"}


@pytest.mark.slow
def test_run_stopped_in_an_epoch_resumes_bit_for_bit(resumes_exactly):
    resumes_exactly(4, OPTIONS)


@pytest.mark.slow
def test_run_stopped_at_any_update_resumes_bit_for_bit(resumes_exactly):
    """With accumulation, data workers, bfloat16 and activations that are computed again."""
    resumes_exactly(5, {**OPTIONS, **MORE, "checkpoint_activations": True})

"""Scenario 1: two epochs of five updates, stopped anywhere and resumed bit for bit."""

from __future__ import annotations

import pytest

from toolkit.training.run import run

UPDATES = 10


@pytest.fixture
def resumes_exactly(config, tmp_path, stopped, end_of):
    """Parameters, optimizer, rates, meters, validation and patience are equal, atol 0."""

    def compare(cuts, accumulation=1, workers=0, precision="fp32", **more):
        def run_config(name):
            return config(
                save_dir=str(tmp_path / name),
                batch_size=8 // accumulation,
                update_freq=accumulation,
                num_workers=workers,
                precision=precision,
                log_interval=7,
                validate_interval_updates=2,
                patience=5,
                lr=0.01,
                warmup_updates=3,
                **more,
            )

        run(run_config("whole"))
        for cut in cuts:
            stopped(run_config(f"cut{cut}"), cut)
            stopped(run_config(f"cut{cut}"), UPDATES, since=cut)
            assert end_of(tmp_path / f"cut{cut}") == end_of(tmp_path / "whole"), f"cut at {cut}"

    return compare


@pytest.mark.slow
def test_run_stopped_in_an_epoch_resumes_bit_for_bit(resumes_exactly):
    resumes_exactly([4])


@pytest.mark.slow
def test_run_stopped_at_any_update_resumes_bit_for_bit(resumes_exactly):
    """With accumulation, data workers, bfloat16 and activations that are computed again."""
    resumes_exactly([5], 4, 2, "bf16", checkpoint_activations=True)

"""Triton kernels as machine code for sm_90: registers and stack stay under the stored bounds."""

from __future__ import annotations

import json

import pytest

from tests.gpu.stored_usage import FILE


@pytest.mark.usefixtures("triton_installed")
def test_kernels_keep_registers_and_spill_no_more_than_before(tmp_path, monkeypatch):
    from tests.gpu.kernels import kernel_variants
    from tests.gpu.machine_code import measure_usage

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    bounds = json.loads(FILE.read_text("utf-8"))
    variants = dict(kernel_variants())
    assert set(variants) == set(bounds), "run python -m tests.gpu.stored_usage"
    usage = {name: list(measure_usage(variant)) for name, variant in variants.items()}
    worse = {
        n: u for n, u in usage.items() if any(a > b for a, b in zip(u, bounds[n], strict=True))
    }
    assert not worse, "more registers or spills: if that is meant, store the bounds again"

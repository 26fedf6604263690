"""Triton kernels as machine code for sm_90: registers and stack stay under the stored bounds."""

from __future__ import annotations

import re

import pytest

from tests.gpu.stored_usage import load_bounds

COMMON = "convolve|correlate|depthwise|mix|normalize|cross-entropy|.* bf16 query taps$"
OTHERS = pytest.param(f"(?!{COMMON})", id="others", marks=pytest.mark.slow)


@pytest.mark.usefixtures("triton_installed")
@pytest.mark.parametrize("names", [pytest.param(COMMON, id="common"), OTHERS])
def test_kernels_keep_registers_and_spill_no_more_than_before(names, tmp_path, monkeypatch):
    """Versions of Triton without bounds must not spill either."""
    import triton

    from tests.gpu.kernels import kernel_variants
    from tests.gpu.machine_code import measure_usage

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    bounds, variants = load_bounds(), dict(kernel_variants())
    known = bounds.get(triton.__version__, {name: [255, 0] for name in variants})
    assert set(variants) == set(known), "run python -m tests.gpu.stored_usage"
    chosen = {name: variant for name, variant in variants.items() if re.match(names, name)}
    if any(hasattr(variant.kernel.fn, "__wrapped__") for variant in chosen.values()):
        pytest.skip("Triton needs the source of kernels, which jaxtyping for Python 3.10 wraps")
    usage = {name: list(measure_usage(variant)) for name, variant in chosen.items()}
    over = {n: [a > b for a, b in zip(u, known[n], strict=True)] for n, u in usage.items()}
    worse = {name: usage[name] for name, which in over.items() if any(which)}
    assert not worse, "more registers or spills: if that is meant, store the bounds again"

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, torch
from toolkit.common.system import keep_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(40 << 20, dtype=torch.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
returned = faults()
assert keep_freed_memory()
kept = min(faults() for _ in range(4))
assert 4 * kept < returned, (kept, returned)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_freed_memory_is_reused_without_page_faults():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)

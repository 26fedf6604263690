from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, torch
from toolkit.common.system import keep_freed_memory
{call}
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(40 << 20, dtype=torch.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def faults(call: str) -> int:
    script = SCRIPT.format(call=call)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_freed_memory_is_reused_without_page_faults():
    kept = min(faults("assert keep_freed_memory()") for _ in range(3))
    assert 4 * kept < faults("")

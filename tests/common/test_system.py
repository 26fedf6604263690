import os
import subprocess
import sys

from toolkit.common.files import is_running


def test_zombie_is_not_running():
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    child.stdout.read()  # until it has ended; nobody has waited for it yet
    for _ in range(10**6):
        if not is_running(child.pid):
            break
    assert not is_running(child.pid) and is_running(os.getpid())
    child.wait()

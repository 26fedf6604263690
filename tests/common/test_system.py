import os
import signal
import subprocess
import sys

from toolkit.common.system import is_running, signal_name


def test_zombie_is_not_running():
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    child.stdout.read()  # until it has ended; nobody has waited for it yet
    for _ in range(10**6):
        if not is_running(child.pid):
            break
    assert not is_running(child.pid) and is_running(os.getpid())
    child.wait()


def test_signal_name_falls_back_to_the_number():
    assert signal_name(signal.SIGTERM) == "SIGTERM"
    assert signal_name(signal.SIGRTMIN + 6) == f"signal {signal.SIGRTMIN + 6}"

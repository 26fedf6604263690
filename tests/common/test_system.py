import os
import signal
import subprocess
import sys

from toolkit.common.system import is_running, signal_name


def test_a_zombie_does_not_run():
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    child.stdout.read()  # until it has ended; nobody has waited for it yet
    for _ in range(10**6):
        if not is_running(child.pid):
            break
    assert not is_running(child.pid) and is_running(os.getpid())
    child.wait()


def test_a_signal_has_its_name_and_one_for_the_real_time_its_number():
    assert signal_name(signal.SIGTERM) == "SIGTERM"
    assert signal_name(signal.SIGRTMIN + 6) == f"signal {signal.SIGRTMIN + 6}"

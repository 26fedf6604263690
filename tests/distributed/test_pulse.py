import threading
import time

import pytest

from toolkit.distributed.heartbeat import CollectiveTracker, main_thread_location


def test_an_exchange_is_counted_and_left_again():
    pulse = CollectiveTracker()
    with pulse.waiting("a sum"):
        assert (pulse.entered, pulse.current) == (1, "a sum") and pulse.waited_seconds >= 0
    assert (pulse.entered, pulse.current, pulse.waited_seconds) == (1, "", 0.0)


def test_an_exchange_that_breaks_stays_marked():
    pulse = CollectiveTracker()
    with pytest.raises(RuntimeError), pulse.waiting("a sum"):
        raise RuntimeError("connection closed")
    assert pulse.current == "a sum"


def test_where_the_main_thread_is_begins_with_its_own_line():
    own, found, done = "test_where_the_main_thread_is_begins_with_", [], threading.Event()

    def look():
        while not done.is_set():
            found.append(main_thread_location())

    threading.Thread(target=look).start()
    for _ in range(5000):
        if any(it.startswith(own) and "(test_pulse.py:" in it for it in found):
            break
        time.sleep(0.001)
    done.set()
    assert any(it.startswith(own) for it in found)

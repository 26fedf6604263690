import os
import subprocess
import sys
import threading
import time

import pytest

from toolkit.distributed.watchdog import (
    DONE,
    Heartbeat,
    find_failure,
    main_thread_location,
)
from toolkit.distributed.world import CollectiveTracker


def heartbeats(*changes):
    """The heartbeats of healthy ranks, with these changes."""
    healthy = {"host": "here", "pid": os.getpid(), "location": "step (trainer.py:1)"}
    return [Heartbeat(rank=rank, **{**healthy, **change}) for rank, change in enumerate(changes)]


def waiting(seconds, entered):
    return {"collective": "a sum over the ranks", "waited_seconds": seconds, "entered": entered}


def dead_process():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return {"pid": ended.pid}


def test_find_failure_names_the_rank_with_the_fewest_collectives():
    found = find_failure(heartbeats(waiting(11.0, 7), waiting(12.0, 7), {"entered": 6}), 0, 10.0)
    assert found[0] == "stalled"
    assert found[1] == (
        "rank 2 is stalled: rank 1 has waited 12 s in a sum over the ranks (step (trainer.py:1)); "
        "it is in step (trainer.py:1)."
    )


def test_find_failure_names_a_finished_rank_that_others_wait_for():
    found = find_failure(heartbeats(waiting(11.0, 7), {"entered": 6, "state": DONE}), 0, 10.0)
    assert found[1].endswith("; it has finished.")


def test_find_failure_suspects_the_network_if_all_ranks_wait():
    found = find_failure(heartbeats(waiting(11.0, 7), waiting(11.0, 7)), 0, 10.0)
    assert found[0] == "stalled" and "as all ranks do: the network may be" in found[1]


@pytest.mark.parametrize(("elsewhere", "kind"), [({}, "died"), ({"host": "there"}, None)])
def test_find_failure_notices_a_dead_process_on_the_same_host(elsewhere, kind):
    found = find_failure(heartbeats({}, {**dead_process(), **elsewhere}), 0, 10.0)
    assert (found and found[0]) == kind


def test_find_failure_names_a_silent_rank():
    found = find_failure(heartbeats({}, {"silent_seconds": 11.0}), 0, 10.0)
    assert found[0] == "silent" and "rank 1 has sent no heartbeat for 11 s" in found[1]


def test_find_failure_repeats_the_error_of_a_failed_rank():
    found = find_failure(heartbeats({}, {"state": "OSError: no disk"}), 0, 10.0)
    assert found[0] == "failed" and found[1] == "rank 1 failed with OSError: no disk."


def test_find_failure_ignores_a_rank_that_is_done():
    assert (
        find_failure(
            heartbeats({}, {**dead_process(), "state": DONE, "silent_seconds": 99.0}), 0, 10.0
        )
        is None
    )


def test_collective_tracker_counts_collectives():
    tracker = CollectiveTracker()
    with tracker.waiting("a sum"):
        assert (tracker.entered, tracker.current) == (1, "a sum") and tracker.waited_seconds >= 0
    assert (tracker.entered, tracker.current, tracker.waited_seconds) == (1, "", 0.0)


def test_collective_tracker_keeps_the_collective_that_raised():
    tracker = CollectiveTracker()
    with pytest.raises(RuntimeError), tracker.waiting("a sum"):
        raise RuntimeError("connection closed")
    assert tracker.current == "a sum"


def test_main_thread_location_starts_with_the_innermost_line():
    own, locations, done = "test_main_thread_location_starts", [], threading.Event()

    def look():
        while not done.is_set():
            locations.append(main_thread_location())

    threading.Thread(target=look).start()
    for _ in range(5000):
        if any(it.startswith(own) and "(test_heartbeat.py:" in it for it in locations):
            break
        time.sleep(0.001)
    done.set()
    assert any(it.startswith(own) for it in locations)

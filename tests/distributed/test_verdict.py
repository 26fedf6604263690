import os
import subprocess
import sys

import pytest

from toolkit.distributed.heartbeat import DONE, Heartbeat, find_failure, process_namespace


def beats(*changes):
    """Ranks that do well, but for what is changed of each."""
    well = {"host": "here", "process": os.getpid(), "where": "step (trainer.py:1)"}
    return [Heartbeat(rank=rank, **{**well, **change}) for rank, change in enumerate(changes)]


def waiting(seconds, entered):
    return {"exchange": "a sum over the ranks", "waited_seconds": seconds, "entered": entered}


def gone():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return {"process": ended.pid}


def test_ranks_that_do_well_are_left_alone():
    assert find_failure(beats({}, {}), 0, 10.0) is None
    assert find_failure(beats(waiting(9.9, 5), {"entered": 4}), 0, 10.0) is None
    assert find_failure(beats({}, {"silent_seconds": 9.9}), 0, 10.0) is None


def test_the_rank_furthest_behind_is_the_late_one():
    found = find_failure(beats(waiting(11.0, 7), waiting(12.0, 7), {"entered": 6}), 0, 10.0)
    assert found.kind == "late"
    assert found.text == (
        "rank 2 is late: rank 1 has waited 12 s in a sum over the ranks (step (trainer.py:1)); "
        "it is in step (trainer.py:1)."
    )


def test_a_rank_that_has_ended_is_late_for_those_that_wait():
    found = find_failure(beats(waiting(11.0, 7), {"entered": 6, "state": DONE}), 0, 10.0)
    assert found.text.endswith("; it has come to its end.")


def test_where_all_wait_the_network_is_blamed():
    found = find_failure(beats(waiting(11.0, 7), waiting(11.0, 7)), 0, 10.0)
    assert found.kind == "late" and "where all ranks are: the network may be" in found.text


@pytest.mark.parametrize(("elsewhere", "kind"), [({}, "gone"), ({"host": "there"}, None)])
def test_a_process_that_is_gone_is_noticed_on_its_own_host(elsewhere, kind):
    found = find_failure(beats({}, {**gone(), **elsewhere}), 0, 10.0)
    assert (found and found.kind) == kind


def test_a_silent_rank_is_named():
    found = find_failure(beats({}, {"silent_seconds": 11.0}), 0, 10.0)
    assert found.kind == "silent" and "rank 1 has given no sign of life for 11 s" in found.text


def test_what_a_rank_ended_with_is_told():
    found = find_failure(beats({}, {"state": "OSError: no disk"}), 0, 10.0)
    assert found.kind == "ended" and found.text == "rank 1 ended with OSError: no disk."


def test_one_that_ended_well_is_not_missed():
    assert (
        find_failure(beats({}, {**gone(), "state": DONE, "silent_seconds": 99.0}), 0, 10.0) is None
    )


def test_a_host_has_one_name():
    assert process_namespace() == process_namespace() != ""

import json
import threading
import time

import pytest
from torch.distributed import HashStore

from toolkit.distributed import World, watchdog
from toolkit.distributed.heartbeat import DONE
from toolkit.distributed.watchdog import Watchdog


class Left(BaseException):
    """In place of the end of the process."""


@pytest.fixture
def dogs(monkeypatch):
    """The watchdogs of so many ranks around one store, none of which looks by itself."""

    def make(size=2, timeout=10.0, folder=None):
        store = HashStore()
        monkeypatch.setattr(watchdog, "connect_to_store", lambda: store)
        monkeypatch.setattr(watchdog, "HEARTBEAT_SECONDS", 0.01)
        store.set("verdict", "")
        made = [
            Watchdog(World(rank=rank, size=size), timeout=timeout, folder=folder)
            for rank in range(size)
        ]
        for dog in made:
            dog.send_heartbeat()
        return made

    def leave(code):
        raise Left(code)

    monkeypatch.setattr(watchdog.os, "_exit", leave)
    return make


def test_each_rank_reads_what_the_others_do(dogs):
    first, second = dogs()
    with second.world.collectives.waiting("a sum over the ranks"):
        second.poll()
    found, said = first.read()
    assert [beat.entered for beat in found] == [0, 1]
    assert found[1].exchange == "a sum over the ranks" and said == ""


def test_a_rank_whose_beats_stop_is_silent_by_the_readers_clock(dogs):
    first, second = dogs(timeout=0.02)
    first.poll()
    time.sleep(0.05)
    first.look()
    assert first.failure.kind == "silent" and "rank 1" in first.failure.text
    second.look()
    assert second.failure == first.failure, "the first verdict is that of all"


def test_the_end_leaves_stacks_and_says_why(dogs, tmp_path, capfd):
    first, _ = dogs(folder=tmp_path)
    first.failure = watchdog.RankFailure("late", "rank 1 is late: it sleeps.")
    with pytest.raises(Left) as code:
        first.abort()
    assert code.value.args == (watchdog.PEER_FAILURE_EXIT_CODE,)
    said = capfd.readouterr().err
    assert "rank 0 ends: rank 1 is late: it sleeps. Start again" in said
    assert "thread 0x" in said
    assert "test_watchdog.py" in (tmp_path / "stacks_rank0.txt").read_text()


def test_a_rank_that_leaves_well_is_done_and_one_that_fails_says_with_what(dogs):
    first, second = dogs()
    second.thread.start()
    second.close()
    assert json.loads(second.store.get("beat 1"))["state"] == DONE
    first.thread.start()
    first.close(KeyError("a name"))
    assert json.loads(first.store.get("beat 0"))["state"] == "KeyError: 'a name'"


def test_the_first_rank_keeps_the_store_until_the_others_have_left(dogs):
    first, second = dogs()
    second.thread.start()
    first.thread.start()
    leaving = threading.Thread(target=first.close)
    leaving.start()
    leaving.join(timeout=0.5)  # many beats, after which it would be gone by itself
    assert leaving.is_alive()
    second.close()
    leaving.join(timeout=5)
    assert not leaving.is_alive()


def test_a_second_ctrl_c_waits_for_nobody(dogs, monkeypatch):
    first, _ = dogs()
    first.thread.start()
    monkeypatch.setattr(watchdog.Watchdog, "linger", pytest.fail)
    monkeypatch.setattr(watchdog.Watchdog, "blame", pytest.fail)
    with pytest.raises(KeyboardInterrupt), first.world.collectives.waiting("a sum"):
        raise KeyboardInterrupt
    first.close(KeyboardInterrupt())
    assert json.loads(first.store.get("beat 0"))["state"] == "KeyboardInterrupt: no message"


def test_a_broken_exchange_is_another_ranks_fault_if_one_is_found_gone(dogs):
    first, _ = dogs()
    first.thread.start()
    first.failure = watchdog.RankFailure("gone", "rank 1 is gone.")
    with (
        pytest.raises(Left),
        pytest.raises(RuntimeError),
        first.world.collectives.waiting("a sum"),
    ):
        try:
            raise RuntimeError("connection closed by peer")
        except RuntimeError as error:
            first.close(error)
            raise

import json
import threading
import time

import pytest
from torch.distributed import HashStore

from toolkit.distributed import World, watchdog
from toolkit.distributed.watchdog import DONE, Watchdog


class Left(BaseException):
    """Raised in place of ending the process."""


@pytest.fixture
def dogs(monkeypatch):
    """The watchdogs of several ranks at one store, without their threads."""

    def make(size=2, timeout=10.0, folder=None):
        store = HashStore()
        monkeypatch.setattr(watchdog, "HEARTBEAT_SECONDS", 0.01)
        made = [
            Watchdog(World(rank=rank, size=size), store, timeout=timeout, folder=folder)
            for rank in range(size)
        ]
        made[0].store.set("failure", "")
        for dog in made:
            dog.send_heartbeat()
        return made

    def leave(code):
        raise Left(code)

    monkeypatch.setattr(watchdog.os, "_exit", leave)
    return make


def test_watchdog_reports_a_rank_whose_heartbeats_stop(dogs):
    first, second = dogs(timeout=0.02)
    first.poll()
    time.sleep(0.05)
    first.poll()
    assert first.failure[0] == "silent" and "rank 1" in first.failure[1]
    second.poll()
    assert second.failure == first.failure, "the first failure found is that of all ranks"


def test_watchdog_abort_reports_the_failure_and_dumps_stacks(dogs, tmp_path, capfd):
    first, _ = dogs(folder=tmp_path)
    first.failure = ("stalled", "rank 1 is stalled: it sleeps.")
    with pytest.raises(Left) as code:
        first.abort()
    assert code.value.args == (watchdog.PEER_FAILURE_EXIT_CODE,)
    failure = capfd.readouterr().err
    assert "rank 0 exits: rank 1 is stalled: it sleeps. Run the same" in failure
    assert "thread 0x" in failure
    assert "test_watchdog.py" in (tmp_path / "stacks_rank0.txt").read_text()


def test_watchdog_abort_exits_although_stacks_cannot_be_written(dogs, tmp_path, capfd):
    (tmp_path / "stacks_rank0.txt").mkdir()
    first, _ = dogs(folder=tmp_path)
    first.failure = ("dead", "rank 1 ended.")
    with pytest.raises(Left):
        first.abort()
    assert "rank 0 exits: rank 1 ended." in capfd.readouterr().err


def test_watchdog_publishes_how_its_rank_ended(dogs):
    first, second = dogs()
    second.thread.start()
    second.close()
    assert json.loads(second.store.get("heartbeat 1"))["state"] == DONE
    first.thread.start()
    first.close(KeyError("a name"))
    assert json.loads(first.store.get("heartbeat 0"))["state"] == "KeyError: 'a name'"


def test_watchdog_of_rank_0_keeps_the_store_until_the_others_end(dogs):
    first, second = dogs()
    second.thread.start()
    first.thread.start()
    leaving = threading.Thread(target=first.close)
    leaving.start()
    leaving.join(timeout=0.5)  # many heartbeats
    assert leaving.is_alive()
    second.close()
    leaving.join(timeout=5)
    assert not leaving.is_alive()


def test_watchdog_does_not_wait_after_a_second_ctrl_c(dogs, monkeypatch):
    first, _ = dogs()
    first.thread.start()
    monkeypatch.setattr(watchdog.Watchdog, "wait_for_peers", pytest.fail)
    monkeypatch.setattr("time.sleep", pytest.fail)  # while it looks for another rank that failed
    with pytest.raises(KeyboardInterrupt), first.world.collectives.waiting("a sum"):
        raise KeyboardInterrupt
    first.close(KeyboardInterrupt())
    assert json.loads(first.store.get("heartbeat 0"))["state"] == "KeyboardInterrupt: no message"


def test_watchdog_attributes_a_broken_collective_to_a_failed_rank(dogs):
    first, _ = dogs()
    first.thread.start()
    first.failure = ("died", "rank 1 died.")
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

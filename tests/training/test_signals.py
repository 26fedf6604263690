import os
import signal
import threading

import pytest

from toolkit.training.callbacks.checkpointing import Checkpointer
from toolkit.training.callbacks.stopping import listen_for_signals
from toolkit.training.callbacks.validation import Validation
from toolkit.training.run import TrainingRun


@pytest.mark.slow
def test_signal_that_is_repeated_within_a_second_is_one_request():
    asked, acted = [], []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: acted.append(number))
    try:
        with listen_for_signals(lambda: asked.append("stop")) as received:
            threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGUSR1]).start()
            os.kill(os.getpid(), signal.SIGUSR1)
        assert asked == ["stop"] and received == [signal.SIGUSR1] and acted == []
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_signal_handlers_are_restored():
    before = signal.getsignal(signal.SIGTERM)
    with listen_for_signals(lambda: None):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_other_threads_handle_no_signals():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def listen():
        with listen_for_signals(lambda: None) as received:
            seen.append((signal.getsignal(signal.SIGTERM), received))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [(before, [])]


@pytest.mark.parametrize(
    ("owner", "method"),
    [(Validation, "update_best"), pytest.param(Checkpointer, "__call__", marks=pytest.mark.slow)],
)
def test_signal_to_one_rank_in_validation_or_save_stops_both(
    config, ranks, tmp_path, monkeypatch, owner, method
):
    real = getattr(owner, method)

    def interrupted(part, *arguments):
        if part.trainer.world.rank == 1 and part.trainer.progress.update == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(part, *arguments)

    monkeypatch.setattr(owner, method, interrupted)

    def train(world):
        training = TrainingRun(config(), world)
        result = training.fit()
        training.close()
        return result.updates, result.exit_code

    assert ranks(train) == [(3, 143)] * 2  # after the first epoch, which is validated and saved
    assert os.readlink(tmp_path / "run" / "checkpoint_last") == "checkpoint_e1_u3"

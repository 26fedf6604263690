import os
import signal
import threading

from toolkit.training.signals import listening


def test_the_first_signal_asks_and_the_second_acts_at_once():
    asked, acted = [], []
    signal.signal(signal.SIGUSR1, lambda number, frame: acted.append(number))
    try:
        with listening(lambda: asked.append("stop")) as received:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGUSR1)
        assert asked == ["stop"] and received == [signal.SIGUSR1] and acted == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def test_outside_signals_are_what_they_were():
    before = signal.getsignal(signal.SIGTERM)
    with listening(lambda: None):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_thread_that_cannot_listen_is_left_alone():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def listen():
        with listening(lambda: None) as received:
            seen.append((signal.getsignal(signal.SIGTERM), received))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [(before, [])]

"""When a run ends: limits, the clock, words, patience and signals."""

import os
import signal
import threading
from time import monotonic

import numpy as np
import pytest

from toolkit.checkpoints.save_folder import read_manifest
from toolkit.common.errors import ToolkitError
from toolkit.config.sections import parse_words
from toolkit.distributed import World
from toolkit.training.callbacks.checkpointing import Checkpointer
from toolkit.training.callbacks.stopping import count_total_updates, find_update, listen_for_signals
from toolkit.training.callbacks.validation import Validation
from toolkit.training.run import TrainingRun, run
from toolkit.training.step import TrainingProgress


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({"max_update": 7, "max_epoch": None}, 7),
        ({"max_update": 7, "max_epoch": 1}, 3),
        ({"max_update": 7, "max_epoch": 9}, 7),
        ({"max_update": None, "max_epoch": 3}, 9),
    ],
)
def test_count_total_updates_takes_the_first_limit(config, memory, limits, wanted):
    training = config(update_freq=4, **limits).training
    assert (
        count_total_updates(
            training, memory([None] * 11).micro_batches, World(), TrainingProgress()
        )
        == wanted
    )


def test_count_total_updates_includes_earlier_updates(config, memory):
    training = config(update_freq=4, max_epoch=2).training
    place = TrainingProgress(update=5, epoch=1, consumed=5)
    assert (
        count_total_updates(training, memory([None] * 11).micro_batches, World(), place)
        == 5 + 2 + 3
    )


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def timed(config):
    """A run in which every update takes an hour."""
    training = TrainingRun(config, World())
    clock = training.stopping.clock = Clock()
    training.stopping.started_at += clock.now - monotonic()

    def advance(step):
        clock.now += 3600

    training.advance_progress_bar = advance
    try:
        return training.fit()
    finally:
        training.close()


def test_stop_time_stops_with_a_checkpoint_and_exit_code_0_until_resumed(config, tmp_path, capfd):
    result = timed(config(stop_time_hours=1.5))
    assert result.updates == 2 and result.exit_code == 0 and result.signal is None
    assert result.out_of_time
    last = tmp_path / "run" / "checkpoint_last"
    assert read_manifest(last).reasons == ["time"] and result.valid == {}
    assert (
        "stopped after 2.00 hours; to resume, run the same command with a larger"
        in capfd.readouterr().err
    )
    resumed = run(config())
    assert resumed.updates == 10 and not resumed.out_of_time


def test_stop_min_lr_stops_at_a_falling_rate_only(config):
    options = {"lr": 0.1, "lr_scheduler": "linear", "warmup_updates": 4, "stop_min_lr": 0.05}
    result = run(config(**options))
    assert result.updates == 8  # 0.1 x (10 - 8 + 1) / (10 - 4) is 0.05
    assert result.valid["valid"]["examples"] == 9


@pytest.mark.slow
def test_run_stopped_by_min_lr_resumes_only_if_longer(config):
    options = {"lr": 0.1, "lr_scheduler": "linear", "max_update": 8, "max_epoch": None}
    low = {**options, "stop_min_lr": 0.07}
    assert [run(config(**low)).updates for _ in range(2)] == [4, 4]  # 0.1 x (8 - 4 + 1) / 8
    longer = {**low, "max_update": 20}
    assert run(config(**longer)).updates == 7  # 0.1 x (20 - 7 + 1) / 20
    assert run(config(**{**longer, "stop_min_lr": 0.06})).updates == 9


@pytest.mark.slow
def test_run_stopped_by_patience_stops_again_immediately(config):
    options = {"lr": 0.0, "patience": 2, "max_epoch": 50}
    first, again = run(config(**options)), run(config(**options))
    assert (first.epochs, again.epochs) == (3, 3) and again.valid == first.valid
    assert run(config(**{**options, "patience": 3})).epochs == 4


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


def test_dots_in_a_list_of_words_stand_for_equal_steps():
    assert parse_words("x", "1M,2M,...,4M,6M,...,10M") == [
        n * 10**6 for n in (1, 2, 3, 4, 6, 8, 10)
    ]


@pytest.mark.parametrize("text", ["2M,1M", "1M,...,3M", "1M,2M,...,4.5M", "1M,2M,...", "ten", ""])
def test_a_list_of_words_that_does_not_rise_in_steps_is_an_error(text):
    with pytest.raises(ToolkitError, match="rising numbers of words"):
        parse_words("checkpoint.save_at_words", text)


def test_words_are_found_and_counted_alike_across_epochs_and_resumption():
    epoch = np.array([0, 5, 9, 10, 17, 20])  # words before each of five micro-batches, and all
    place, seen = TrainingProgress(), []
    for _ in range(7):
        place = place.advance(2, 5, epoch)
        seen.append(place.words)
    assert seen == [9, 17, 20, 29, 37, 40, 49]
    middle = TrainingProgress(update=1, epoch=1, consumed=2, words=9)
    for start in (TrainingProgress(), middle):
        assert [find_update(n, "x", lambda _: epoch, 2, start) for n in (10, 20, 21, 49)] == [
            *(2, 3, 4, 7)
        ]


def test_a_run_that_began_without_a_count_has_no_words():
    with pytest.raises(ToolkitError, match="from the first update"):
        find_update(9, "--max-words", lambda _: np.arange(9), 1, TrainingProgress(update=3))

from time import monotonic

import pytest

from toolkit.checkpoints.save_folder import read_manifest
from toolkit.distributed import World
from toolkit.training.callbacks.stopping import count_total_updates
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


def test_stop_time_stops_with_a_checkpoint_and_exit_code_0(config, tmp_path, capfd):
    result = timed(config(stop_time_hours=1.5))
    assert result.updates == 2 and result.exit_code == 0 and result.signal is None
    assert result.out_of_time
    last = tmp_path / "run" / "checkpoint_last"
    assert read_manifest(last).reasons == ["time"] and result.valid == {}
    assert (
        "stopped after 2.00 hours; to resume, run the same command with a larger"
        in capfd.readouterr().err
    )


@pytest.mark.slow
def test_run_stopped_by_time_resumes_bit_for_bit(config, tmp_path):
    whole = run(config(save_dir=str(tmp_path / "whole")))
    assert timed(config(stop_time_hours=2.5)).updates == 3
    resumed = run(config())
    assert resumed.valid == whole.valid and not resumed.out_of_time
    weights = [tmp_path / n / "checkpoint_last" / "model.safetensors" for n in ("whole", "run")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


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

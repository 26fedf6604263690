"""Fault 7: SIGTERM, SIGINT and SIGUSR1 in the middle of a step, of a validation, of a save.

Each signal is sent from inside what it interrupts, so that no moment is a matter of luck.
"""

from __future__ import annotations

import os
import signal

import pytest

from toolkit.checkpoints import save_folder
from toolkit.checkpoints.save_folder import LAST, SaveFolder
from toolkit.cli.train import main
from toolkit.config.serialize import to_dict
from toolkit.training.callbacks.validation import Validation
from toolkit.training.resume import find_newest_intact
from toolkit.training.trainer import Trainer

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]
MOMENTS = {
    "step": (Trainer, "apply_update", 3),
    "validation": (Validation, "update_best", 5),
    "save": (save_folder, "write_manifest", 5),
}
"""What is interrupted: the owner of the function, its name, and the update."""


def words_of(config):
    """The command line of a run."""
    found = []
    for section, options in to_dict(config).items():
        for name, value in options.items():
            if value not in (None, []):
                texts = map(str, value) if isinstance(value, list) else [str(value)]
                found += [f"--{section}.{name.replace('_', '-')}={text}" for text in texts]
    return found


@pytest.fixture
def interrupt(monkeypatch):
    """Sends these signals one after the other before the n-th call of a function."""

    def at(owner, name, call, *numbers):
        real, calls = getattr(owner, name), []

        def interrupted(*arguments, **options):
            calls.append(1)
            if len(calls) == call:
                for number in numbers:
                    os.kill(os.getpid(), number)
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, interrupted)

    return at


@pytest.mark.slow
@pytest.mark.parametrize(("number", "moment"), [*zip(SIGNALS, MOMENTS, strict=True)])
def test_signal_stops_at_the_next_update_with_a_checkpoint_and_its_exit_code(
    config, tmp_path, interrupt, number, moment, capfd
):
    owner, name, update = MOMENTS[moment]
    interrupt(owner, name, update if moment == "step" else 1, number)
    assert main(words_of(config(log_interval=1000))) == 128 + number
    assert f"stopped by {number.name}; to resume, run the same command" in capfd.readouterr().err
    saves = SaveFolder(tmp_path / "run")
    assert os.readlink(saves.path / LAST) == f"checkpoint_e1_u{update}"
    assert find_newest_intact(saves, pytest.fail) == saves.resolve_link(LAST)


def train_and_be_told_twice(config, interrupt, number, moment):
    signal.signal(number, signal.SIG_DFL)
    owner, name, _ = MOMENTS[moment]
    interrupt(owner, name, 2 if moment == "save" else 1, number, number)
    main(words_of(config))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "moment"), [(signal.SIGTERM, "step"), (signal.SIGUSR1, "save")])
def test_second_signal_terminates_immediately_and_keeps_older_checkpoints(
    config, tmp_path, in_process, interrupt, number, moment
):
    c = config(log_interval=1000)
    assert in_process(train_and_be_told_twice, c, interrupt, number, moment) == -number
    left = find_newest_intact(SaveFolder(tmp_path / "run"), pytest.fail)
    assert (left and left.name) == ("checkpoint_e1_u5" if moment == "save" else None)


@pytest.mark.slow
def test_second_ctrl_c_exits_with_130(config, interrupt):
    interrupt(Trainer, "apply_update", 1, signal.SIGINT, signal.SIGINT)
    assert main(words_of(config())) == 130

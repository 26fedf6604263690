"""Fault 19: a data worker dies, fails or hangs; the error names its examples."""

from __future__ import annotations

import os
import time

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.tasks.pretraining.mlm import MaskedExamples
from toolkit.training.run import run

BAD = 7


@pytest.fixture
def do_at_bad(monkeypatch):
    """Makes collating example 7 fail, in data workers only."""
    collate, trainer = MaskedExamples.collate, os.getpid()

    def plant(deed):
        def collated(self, ids, epoch):
            if epoch is not None and BAD in ids and os.getpid() != trainer:
                deed()
            return collate(self, ids, epoch)

        monkeypatch.setattr(MaskedExamples, "collate", collated)

    return plant


def test_dead_worker_is_reported_with_data_and_examples(config, data, do_at_bad):
    do_at_bad(lambda: os._exit(1))
    with pytest.raises(ToolkitError) as caught:
        run(config(num_workers=2))
    message = str(caught.value)
    assert "a data worker exited with code 1 while collating examples " in message
    assert f" of train of {data}. Use fewer --num-workers" in message
    assert str(BAD) in message.partition("while collating examples ")[2].partition(" of train")[
        0
    ].split(", ")


@pytest.mark.slow
def test_stalled_worker_is_reported_after_the_timeout(config, data, do_at_bad):
    do_at_bad(lambda: time.sleep(10_000))
    with pytest.raises(ToolkitError) as caught:
        run(config(num_workers=1, data__timeout_seconds=4))
    message = str(caught.value)
    assert "has not answered within data.timeout_seconds (4); it is collating examples" in message
    assert f" of train of {data}. Find out what holds it up" in message

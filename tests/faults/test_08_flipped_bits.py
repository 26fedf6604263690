"""Fault 8: a bit flips anywhere on disk; it is detected and an older checkpoint used."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.training.resume import find_newest_intact
from toolkit.training.run import run

TIMES = 200


def flip(file, draw):
    """Flip one bit; returns the previous content."""
    whole = file.read_bytes()
    damaged, bit = bytearray(whole), int(draw.integers(8 * len(whole)))
    damaged[bit // 8] ^= 1 << bit % 8
    file.write_bytes(damaged)
    return whole


@pytest.mark.slow
def test_flipped_bits_of_a_checkpoint_fall_back_to_an_older_one_200_of_200(trained):
    older, newest = trained / "checkpoint_e1_u5", trained / "checkpoint_e2_u10"
    files, draw = sorted(newest.iterdir()), np.random.default_rng(0)
    assert len(files) >= 8
    for number in range(TIMES):
        file, messages = files[number % len(files)], []
        whole = flip(file, draw)
        assert find_newest_intact(SaveFolder(trained), messages.append) == older
        assert len(messages) == 1 and messages[0].startswith("skipped: ")
        assert (file.name if file.suffix != ".json" else file.stem) in messages[0]
        file.write_bytes(whole)
    assert find_newest_intact(SaveFolder(trained), pytest.fail).samefile(newest)


@pytest.mark.slow
def test_run_reports_which_checkpoint_it_resumes_from_instead(config, trained, capfd):
    flip(trained / "checkpoint_last" / "optimizer.safetensors", np.random.default_rng(0))
    assert run(config()).updates == 10
    messages = " ".join(capfd.readouterr().err.split())
    assert "checkpoint_last" not in messages.split("skipped: ")[0]
    assert "optimizer.safetensors must have the digest in its manifest.json, but is dam" in messages
    assert f"resuming from {trained}/checkpoint_e1_u5: 5 updates" in messages

"""Fault 14: a rank with other data or another configuration; no rank starts."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.preprocess import preprocess
from toolkit.training.run import TrainingRun


@pytest.fixture
def other(data, tmp_path):
    """Data of the same vocabulary and size, but other text."""
    text = "\n".join(["the cat saw how a mat sat on far dogs"] * 76) + "\n"
    (tmp_path / "other.txt").write_text(text)
    preprocess(
        preprocess_config(
            trainpref=str(tmp_path / "other.txt"),
            validpref=str(tmp_path / "other.txt"),
            sentencepiece_model=str(data / "sentencepiece.model"),
            destdir=str(tmp_path / "other"),
            workers=1,
        )
    )
    return tmp_path / "other"


OTHERS = [{"lr": 0.01}, {"batch_size": 4}, {"seed": 2}, {"arch__layers": 2}, {"mask_rate": 0.2}]


def started(config, world):
    """The error of a rank at its start."""
    try:
        TrainingRun(config, world).close()
    except ToolkitError as error:
        return str(error)
    return "started"


def refused(texts):
    """Whether both ranks name the other one."""
    want = [
        f"all ranks must have the same options and data, but those of rank {rank} differ from "
        f"those of [{1 - rank}]."
        for rank in (0, 1)
    ]
    return [text[: len(start)] for text, start in zip(texts, want, strict=True)] == want


def test_different_data_on_a_rank_are_rejected_by_both(config, ranks, data, other, tmp_path):
    """As on two machines whose folders of the same name hold different text."""

    def start(world):
        machine = tmp_path / f"machine{world.rank}"
        shutil.copytree(other if world.rank else data, machine / "data")
        os.chdir(machine)
        return started(config(data__dirs=["data"]), world)

    assert refused(ranks(start))


@pytest.mark.slow
def test_different_config_on_a_rank_is_rejected_by_both(config, ranks):
    def start(world):
        options = [{}, *OTHERS]
        return [started(config(no_save=True, **(o if world.rank else {})), world) for o in options]

    first, second = ranks(start)
    assert first[0] == second[0] == "started"
    assert all(refused(texts) for texts in zip(first[1:], second[1:], strict=True))

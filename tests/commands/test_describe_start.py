import json

import pytest

from toolkit.commands.describe_start import describe_start, find_start

START = {
    "time": "2026-11-23T16:06:32+00:00",
    "working_directory": "/home/me",
    "toolkit": {"version": "0.1.0", "commit": "abc", "uncommitted_changes": True},
    "plugins": [
        {"name": "mine", "commit": "def", "uncommitted_changes": False},
        {"name": "theirs", "package": "their-plugin 2.0", "no_commit": "not a git repository"},
    ],
    "packages": {"python": "3.11.7", "torch": "2.13.0"},
    "host": "node3",
    "os": "Linux",
    "cpu": "EPYC",
    "cores": 96,
    "memory_gib": 755.5,
    "gpus": ["H200", "H200"],
    "device": "H200",
    "ranks": 2,
    "command": "toolkit-train data",
    "update": 0,
    "resumed_from": None,
}


@pytest.fixture
def record(tmp_path):
    """Writes these starts, and gives the path of a checkpoint next to the record."""

    def write(starts):
        (tmp_path / "environment.json").write_text(json.dumps(starts))
        return tmp_path / "checkpoint_e1_u5"

    return write


def test_description_of_a_start_has_command_code_packages_and_machine():
    assert describe_start({**START, "resumed_from": "run/checkpoint_e1_u4"}) == {
        "command": "toolkit-train data",
        "started": "2026-11-23T16:06:32+00:00 in /home/me, resumed from run/checkpoint_e1_u4",
        "code": "toolkit 0.1.0, commit abc with uncommitted changes; mine, commit def; "
        "theirs, package their-plugin 2.0, not a git repository",
        "packages": "python 3.11.7, torch 2.13.0",
        "machine": "node3 (Linux); 96 cores of EPYC, 755.5 GiB; H200; H200; 2 ranks on H200",
    }
    assert describe_start({**START, "command": None})["command"] == "none: started from Python"
    assert describe_start(None) == {}


def test_start_of_a_checkpoint_is_the_last_one_before_its_update(record):
    checkpoint = record([{**START, "update": update} for update in (0, 4, 4, 8)])
    assert [find_start(checkpoint, update)["update"] for update in (0, 4, 5, 8, 9)] == [
        0,
        0,
        4,
        4,
        8,
    ]


@pytest.mark.parametrize("starts", [{}, [], [1], [{}], [{**START, "toolkit": "0.1"}]])
def test_damaged_records_are_ignored(record, starts):
    assert find_start(record(starts), 5) is None


def test_checkpoint_without_a_record_has_no_start(tmp_path):
    assert find_start(tmp_path / "checkpoint_e1_u5", 5) is None
    (tmp_path / "environment.json").mkdir()
    assert find_start(tmp_path / "checkpoint_e1_u5", 5) is None

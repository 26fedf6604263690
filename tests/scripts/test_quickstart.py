"""The quickstart replaces its own outputs and keeps all other files."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def quickstart(tmp_path):
    """Run the script in a project where installation does nothing and preprocessing fails."""
    programs = {"scripts/install.sh": "exit 0", "venv/bin/toolkit-preprocess": "exit 3"}
    for name, text in programs.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    script = tmp_path / "scripts" / "quickstart.sh"
    script.write_text((SCRIPTS / "quickstart.sh").read_text())

    def call(*texts):
        environment = {**os.environ, "TOOLKIT_VENV": "venv"}
        return subprocess.run(
            ["bash", script, *texts], capture_output=True, text=True, env=environment
        )

    return call


def written(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("Mine.\n")
    return path


@pytest.mark.parametrize("name", ["run/mine.txt", "data/sub/mine.txt", "python.txt"])
def test_quickstart_keeps_the_text_that_it_is_given(quickstart, tmp_path, name):
    text = written(tmp_path / "quickstart" / name)
    found = quickstart(text)
    assert found.returncode == 2 and "which this script replaces. Move it elsewhere" in found.stderr
    assert text.exists()


def test_quickstart_removes_its_outputs_and_nothing_else(quickstart, tmp_path):
    folder = tmp_path / "quickstart"
    old = [written(folder / name) for name in ("run/metrics.jsonl", "data/meta.json", "curve.png")]
    others = [written(folder / name) for name in ("bert/metrics.jsonl", "running.txt")]
    found = quickstart(others[-1])
    assert found.returncode == 3, "preprocessing is reached"
    assert not any(path.exists() for path in old) and all(path.exists() for path in others)

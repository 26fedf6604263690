from __future__ import annotations

import os
import sys

import pytest


@pytest.fixture
def commands(repository, tmp_path):
    """An environment in which the commands are this toolkit's."""
    (folder := tmp_path / "bin").mkdir()
    for name in ("train", "preprocess", "validate", "convert", "plot"):
        (folder / f"toolkit-{name}").write_text(make_script(f"-m toolkit.cli.{name}"))
    (folder / "python").write_text(make_script())
    for program in folder.iterdir():
        program.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(repository)}


def make_script(module=""):
    """A script that calls this Python."""
    return f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n'

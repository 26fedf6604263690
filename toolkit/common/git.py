"""The git commit of a folder of source code."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

TIMEOUT_SECONDS = 10


@cache
def describe_commit(folder: Path) -> dict[str, str | bool]:
    """`commit`, and whether there are `uncommitted_changes` in the folder.

    If git does not track the folder, as that of an installed package: the reason as `no_commit`.
    """
    try:
        tracked = run_git(folder, "ls-files")
        status = run_git(folder, "status", "--porcelain=v2", "--branch").splitlines()
    except FileNotFoundError:
        return {"no_commit": "git is not installed"}
    except subprocess.TimeoutExpired:
        return {"no_commit": f"git took longer than {TIMEOUT_SECONDS} seconds"}
    except (OSError, subprocess.CalledProcessError):
        tracked, status = "", []
    heads = [line.removeprefix("# branch.oid ") for line in status if "# branch.oid " in line]
    if not tracked or not heads or heads[0] == "(initial)":
        return {"no_commit": "not a git repository"}
    changed = any(not line.startswith("#") for line in status)
    return {"commit": heads[0], "uncommitted_changes": changed}


def run_git(folder: Path, command: str, *options: str) -> str:
    """Output of a git command about the files in a folder."""
    words = ["git", "--no-optional-locks", "-C", str(folder), command, *options, "--", "."]
    other = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    ran = subprocess.run(
        words, env=other, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True
    )
    return ran.stdout

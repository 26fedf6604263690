"""Folders that commands create as checkpoints outside of a run."""

from __future__ import annotations

from pathlib import Path

from toolkit.checkpoints.save_folder import BEST, CHECKPOINT_NAME, LAST
from toolkit.common.errors import ToolkitError


def check_new_directory(path: Path, option: str) -> None:
    """Raise unless `path` is new, and no run would take it for one of its checkpoints."""
    if path.exists() or path.is_symlink():
        raise ToolkitError(
            f"{option} must name a new folder, but {path} exists. Choose another, or delete it."
        )
    if CHECKPOINT_NAME.fullmatch(path.name) or path.name in (LAST, BEST):
        raise ToolkitError(
            f"{option} cannot be called {path.name}, as the checkpoints of a run are. Choose "
            f"another name."
        )
    if not path.parent.is_dir():
        raise ToolkitError(f"No such folder: {path.parent}. Create it, or choose another {option}.")

"""A check of the folder for a checkpoint outside of runs, as toolkit-average writes."""

from __future__ import annotations

from pathlib import Path

from toolkit.checkpoints.save_folder import BEST, CHECKPOINT_NAME, LAST
from toolkit.common.errors import ToolkitError


def check_new_folder(path: Path, option: str) -> None:
    """Raise unless `path` is new and cannot be confused with a checkpoint of a run."""
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
